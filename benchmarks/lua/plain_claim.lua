--[[
purpose:   Minimal claim of the best item: takes it from the order, records holder, fence and expiry.
guarantee: Finding and claiming are atomic.
args:      agent ttl_ms
reply:     {id, fence}
errors:    NOT_FOUND
owns:      item.f item.r item.a item.x ranked
--]]
local clock = require 'clock'

return function(run, agent, ttl_ms)
  local id = redis.call('ZPOPMIN', run.keys.ranked .. '*')[1]
  if not id then return redis.error_reply('FLEET NOT_FOUND') end
  local fence = redis.call('HINCRBY', run.keys.item .. id, 'f', 1)
  redis.call('HSET', run.keys.item .. id, 'r', 'work', 'a', agent, 'x', clock.whole(run.now + ttl_ms))
  return cmsgpack.pack({id, fence})
end
