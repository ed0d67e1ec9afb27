--[[
purpose:   A small write with a claim's number of arguments and members in its reply.
guarantee: The key lives a minute.
args:      request fingerprint agent item ttl fence
reply:     {item, agent, count, ttl, fence}
errors:    none
--]]
-- @include keys
local count = redis.call('INCR', K_REQUEST .. request)
redis.call('PEXPIRE', K_REQUEST .. request, 60000)
return cmsgpack.pack({item, agent, count, tonumber(ttl), tonumber(fence)})
