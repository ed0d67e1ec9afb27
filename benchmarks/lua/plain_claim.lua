--[[
purpose:   The least that claims the best item: takes it from the order, notes holder, fence and end.
guarantee: Finding and claiming are one step.
args:      agent ttl_ms
reply:     {id, fence}
errors:    NOT_FOUND
--]]
-- @include keys
-- @include clock
local now = server_time()
local id = redis.call('ZPOPMIN', K_RANKED .. '*')[1]
if not id then return redis.error_reply('FLEET NOT_FOUND') end
local fence = redis.call('HINCRBY', K_ITEM .. id, 'f', 1)
redis.call('HSET', K_ITEM .. id, 'r', 'work', 'a', agent, 'x', whole(now + ttl_ms))
return cmsgpack.pack({id, fence})
