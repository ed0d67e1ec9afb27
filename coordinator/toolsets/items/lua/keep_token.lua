--[[
purpose:   Makes a token the newest one for an item.
guarantee: It replaces the one before.
args:      record number keep_ms
           record = the request under which its number is kept; number = what the token says
reply:     nothing
errors:    none
writes:    request
--]]
return function(run, record, number, keep_ms)
  redis.call('PSETEX', run.keys.request .. record, keep_ms, number)
  return true
end
