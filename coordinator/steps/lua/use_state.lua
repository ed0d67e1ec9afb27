--[[
purpose:   Notes that an owner is about to use a state, under the number that this has.
guarantee: An owner that has used the same connection under another number is told once, before its call is made.
args:      owner connection number anew
           owner = the run, or a caller, that remembers; anew = 1: whatever it remembers
reply:     0 it was another number, 1 the same, 2 the owner remembered none
errors:    none
writes:    run state_seen
--]]
local KEPT_MS = 30 * 86400000

return function(run, owner, connection, number, anew)
  local key, field = run.keys.run .. owner, 'st:' .. connection
  if redis.call('EXISTS', key) == 0 then key, field = run.keys.state_seen .. owner, connection end
  local seen = redis.call('HGET', key, field)
  if seen ~= number then redis.call('HSET', key, field, number) end
  if field == connection then redis.call('PEXPIRE', key, KEPT_MS) end
  return seen == number and 1 or (not seen or anew == '1') and 2 or 0
end
