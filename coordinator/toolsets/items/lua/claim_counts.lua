--[[
purpose:   Counts the live claims, and those that have expired but are still on their items.
guarantee: O(log n), exact at the server's present time; writes nothing.
args:      none
reply:     {live, expired}
errors:    none
--]]
-- @include clock
-- @include keys
local now = server_time()
local unseen = redis.call('ZCOUNT', K_LEASES, '-inf', now)
local lapsed = tonumber(redis.call('HGET', K_LAPSED, '*') or 0)
return cmsgpack.pack({redis.call('ZCOUNT', K_LEASES, now + 1, '+inf'), unseen + lapsed})
