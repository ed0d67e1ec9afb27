--[[
purpose:   The least that completes an item for its holder.
guarantee: Nobody else completes it.
args:      agent item
reply:     whether it was the agent's
errors:    none
--]]
-- @include keys
-- @include clock
local found = redis.call('HMGET', K_ITEM .. item, 'a', 'r')
if found[1] ~= agent or found[2] ~= 'work' then return cmsgpack.pack(false) end
redis.call('HSET', K_ITEM .. item, 'r', 'terminal', 'c', whole(server_time()))
return cmsgpack.pack(true)
