--[[
purpose:   Puts expired claims back, for a caller that counts claims.
guarantee: Bounded: at most 50 claims a run.
args:      events_max
reply:     whether none are left
errors:    UNSETTLED
full:      it removes what has expired
--]]
-- @include clock
-- @include settle
local now = server_time()
if not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end
local none_left = sweep_claims(now, events_max, 50)
serve_waiters(now, events_max)
return with_debts(cmsgpack.pack(none_left))
