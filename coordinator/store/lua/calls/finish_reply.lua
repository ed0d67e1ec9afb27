--[[
purpose:   Makes a reply that was handed over (requests.lua) final, because a repeated call gets it.
guarantee: The effect is not taken back any more, or (reply 0) it was taken back before.
args:      name
reply:     1: the record is there, else 0
errors:    none
writes:    request
full:      it changes one letter
--]]
local STATE_AT = 16 -- of the letter in a record

return function(run, name)
  local record = run.keys.request .. name
  if redis.call('EXISTS', record) == 0 then return 0 end
  redis.call('SETRANGE', record, STATE_AT, 'D')
  return 1
end
