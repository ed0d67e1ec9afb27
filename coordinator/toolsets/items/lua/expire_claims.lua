--[[
purpose:   Puts expired claims back, for a caller that counts claims.
guarantee: Bounded: at most 50 claims a run.
args:      events_max
reply:     whether none are left
errors:    none
full:      what has expired is taken away
--]]
-- @include clock
-- @include serve
local now = server_time()
local none_left = sweep(now, events_max, 50)
serve(now, events_max)
return with_debts(cmsgpack.pack(none_left))
