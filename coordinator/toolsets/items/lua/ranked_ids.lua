--[[
purpose:   Lists the ids of the best items of some classes, among all items or one parent's children.
guarantee: O(log n + limit) for each class; items with expired claims stay in their class.
args:      parent classes limit
           parent = id or '' for all items; classes = letters (include/classes.lua)
reply:     for each class {how many there are, {id, score, id, score ...} best first}
errors:    NOT_FOUND
--]]
-- @include index
if parent ~= '' and not load_item(parent) then return redis.error_reply('FLEET NOT_FOUND') end
local key, reply = K_RANKED .. (parent == '' and '*' or 'p' .. parent), {}
for letter in string.gmatch(classes, '.') do
  local from = class_of_letter(letter) * CLASS_SIZE
  local to = from + CLASS_SIZE - 1
  local best = redis.call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', 0, limit)
  reply[#reply + 1] = {redis.call('ZCOUNT', key, from, to), best}
end
return cmsgpack.pack(reply)
