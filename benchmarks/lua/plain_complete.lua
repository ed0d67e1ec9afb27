--[[
purpose:   Minimal completion of an item by its holder.
guarantee: Only the holder completes it.
args:      agent item
reply:     whether it was the agent's
errors:    none
owns:      item.s item.c
--]]
local clock = require 'clock'

return function(run, agent, item)
  local found = redis.call('HMGET', run.keys.item .. item, 'a', 'r')
  if found[1] ~= agent or found[2] ~= 'work' then return cmsgpack.pack(false) end
  redis.call('HSET', run.keys.item .. item, 's', 'terminal', 'c', clock.whole(run.now))
  return cmsgpack.pack(true)
end
