--[[
purpose:   Lists the ids of the best items of some classes, among all items or one parent's children.
guarantee: O(log n + limit) for each class; items with expired claims stay in their class.
args:      parent class_list limit
           parent = id or '' for all items; class_list = letters (modules/classes.lua)
reply:     for each class {how many there are, {id, score, id, score ...} best first}
errors:    NOT_FOUND
writes:    none
--]]
local classes = require 'classes'
local items = require 'items'
local read = require 'read'

local CLASS_SIZE = classes.CLASS_SIZE

return function(run, parent, class_list, limit)
  return read(run, function()
    if parent ~= '' and not items.load(run, parent) then return redis.error_reply('FLEET NOT_FOUND') end
    local key, reply = run.keys.ranked .. (parent == '' and '*' or 'p' .. parent), {}
    for letter in string.gmatch(class_list, '.') do
      local from = classes.class_of_letter(letter) * CLASS_SIZE
      local to = from + CLASS_SIZE - 1
      local best = redis.call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', 0, limit)
      reply[#reply + 1] = {redis.call('ZCOUNT', key, from, to), best}
    end
    return reply
  end)
end
