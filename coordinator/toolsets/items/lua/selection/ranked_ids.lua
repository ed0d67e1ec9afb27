--[[
purpose:   Lists the ids of the best items of some classes, among all items or one parent's children.
guarantee: O(log n + limit) for each class; items with expired claims stay in their class.
args:      parent class_list limit
           parent = id or '' for all items; class_list = letters (classes.lua)
reply:     for each class Ranked (rules/classes.py)
errors:    NOT_FOUND
--]]
local classes = require 'classes'
local clock = require 'clock'
local index = require 'index'
local items = require 'items'
local read = require 'read'
local streams = require 'streams'

local CLASS_SIZE = classes.CLASS_SIZE

local function step(part)
  part.position, part.id = part.next()
end

-- How many members of the scopes have a score in a range, and the first `limit` of them as {id, score, ...}.
local function best_of(run, scopes, from, to, limit)
  local size, parts, best = 0, {}, {}
  for n, scope in ipairs(scopes) do
    size = size + redis.call('ZCOUNT', run.keys.ranked .. scope, from, to)
    parts[n] = {next = streams.read(run.keys.ranked .. scope, from, to, limit)}
  end
  local next_member = streams.merge(parts, step)
  while #best < 2 * limit do
    local score, id = next_member()
    if not id then break end
    best[#best + 1], best[#best + 2] = id, clock.whole(score)
  end
  return {size, best}
end

return function(run, parent, class_list, limit)
  return read(run, function()
    if parent ~= '' and not items.load(run, parent) then return redis.error_reply('FLEET NOT_FOUND') end
    local scopes, reply = parent == '' and index.EVERYTHING or {'p' .. parent}, {}
    for letter in string.gmatch(class_list, '.') do
      local from = classes.class_of_letter(letter) * CLASS_SIZE
      reply[#reply + 1] = best_of(run, scopes, from, from + CLASS_SIZE - 1, tonumber(limit))
    end
    return reply
  end)
end
