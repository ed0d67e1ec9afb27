--[[
purpose:   Reads a page of the items of some classes by the last entry of their history, newest first, for boards.
guarantee: Each item comes once. About `budget` entries are looked at; the reply says where to continue. Items that
           never changed their role, and those whose history was trimmed, are not found.
args:      asked after limit budget
           asked = as for board_page.lua; after = `next` of an earlier reply, '' for none
reply:     RecentPage (store/boards/windows.py)
errors:    none
--]]
local classes = require 'classes'
local conditions = require 'conditions'
local item_record = require 'item_record'
local ranges = require 'ranges'
local read = require 'read'
local rows = require 'rows'

local CLASS_SIZE, STATES = classes.CLASS_SIZE, classes.STATES

local ENTRIES_READ = 100

-- Returns meets(id, entry, to): whether an item that went to a role matches, and this is the last entry of its history.
local function matcher(run, asked)
  local fields, test, field = conditions.compile(run, asked.conditions)
  local record_at, class_set, roles = field('w'), {}, {}
  for letter in string.gmatch(asked.classes, '.') do
    local class = classes.class_of_letter(letter)
    class_set[class], roles[math.floor(class / STATES)] = true, true
  end
  return function(id, entry, to)
    if not roles[to] then return false end
    local values, item = redis.call('HMGET', run.keys.item .. id, unpack(fields)), {}
    if not values[record_at] then return false end
    item_record.unpack(item, values[record_at])
    if item.last_entry ~= entry or not class_set[math.floor(item.score / CLASS_SIZE)] then return false end
    return ranges.contains(asked.span, item.score) and (test(values, id, classes.created_of(item.score)))
  end
end

-- The ids of a page, and where the next one begins.
local function find(run, meets, after, limit, budget)
  local ids, before = {}, after ~= '' and '(' .. after or '+'
  while true do
    local entries = redis.call('XREVRANGE', run.keys.transitions, before, '-', 'COUNT', ENTRIES_READ)
    for _, entry in ipairs(entries) do
      if #ids == limit or budget <= 0 then return ids, after end
      local id, _, to = unpack(cmsgpack.unpack(entry[2][2]), 1, 3)
      after, budget = entry[1], budget - 1
      if meets(id, after, to) then ids[#ids + 1] = id end
    end
    if #entries < ENTRIES_READ then return ids, '' end
    before = '(' .. after
  end
end

return function(run, asked, after, limit, budget)
  return read(run, function()
    local meets = matcher(run, cmsgpack.unpack(asked))
    local ids, next_entry = find(run, meets, after, tonumber(limit), tonumber(budget))
    return {run.now, rows.of_all(run, ids), next_entry}
  end)
end
