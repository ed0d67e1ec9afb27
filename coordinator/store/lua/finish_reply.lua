--[[
purpose:   Makes a reply that was handed over (include/idempotency.lua) final, because a further call gets it.
guarantee: The effect is not taken back any more, or (reply 0) it was taken back before.
args:      name
reply:     1: the record is there, else 0
errors:    none
full:      it changes one letter
--]]
-- @include idempotency

if redis.call('EXISTS', K_REQUEST .. name) == 0 then return 0 end
redis.call('SETRANGE', K_REQUEST .. name, 16, 'D')
return 1
