--[[
purpose:   The best items of some classes, by id, within everything or one parent's children.
guarantee: O(log n + limit) for each class; expired claims stay in the class where they are.
args:      parent classes limit
           parent = id or '' for all items; classes = letters (include/item.lua)
reply:     for each class {how many there are, {id, rank, id, rank ...} best first}
errors:    NOT_FOUND
--]]
-- @include index
if parent ~= '' and not load(parent) then return redis.error_reply('FLEET NOT_FOUND') end
local scope, reply = parent == '' and '*' or 'p' .. parent, {}
for class in string.gmatch(classes, '.') do
  local key = index_key(scope, class)
  reply[#reply + 1] = {redis.call('ZCARD', key), redis.call('ZRANGE', key, 0, limit - 1, 'WITHSCORES')}
end
return cmsgpack.pack(reply)
