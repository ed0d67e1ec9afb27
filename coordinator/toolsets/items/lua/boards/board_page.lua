--[[
purpose:   Reads a window of the items of some classes in order of rank, for boards and lists that people read.
guarantee: O(log n + limit) if one scope of the ranked index holds just what is asked for, or if that is one agent's
           item or in one small tree. Else about `budget` items are looked at; the reply says where to continue.
args:      asked offset after limit budget
           asked = packed map: scopes, classes, span, conditions as for scan_items.lua, holder and ancestor or '';
           after = `next` of an earlier reply, '' for none: then the first `offset` matches are passed over
reply:     BoardPage (store/boards/windows.py)
errors:    none
--]]
local agents = require 'agents'
local classes = require 'classes'
local conditions = require 'conditions'
local offsets = require 'offsets'
local ranges = require 'ranges'
local read = require 'read'
local rows = require 'rows'
local subtrees = require 'subtrees'
local tallies = require 'tallies'
local windows = require 'windows'

local CLASS_SIZE, GROUP_SIZE, RANK_EPOCH = classes.CLASS_SIZE, classes.GROUP_SIZE, classes.RANK_EPOCH

local TREE_MAX = 1000 -- items of a tree that is read as a whole
local TEXT_UNIT = 2000 -- bytes of text that take as long as an item

-- Returns meets(id, rank): whether an item matches, and how many items as long that took.
local function matcher(run, wanted)
  local fields, test = conditions.compile(run, wanted)
  return function(id, rank)
    local values = fields[1] and redis.call('HMGET', run.keys.item .. id, unpack(fields)) or {}
    local matches, bytes = test(values, id, rank % GROUP_SIZE + RANK_EPOCH)
    return matches, 1 + bytes / TEXT_UNIT
  end
end

-- The matches in order as {id, rank}, if they are among few items; else nil.
local function few(run, asked)
  local found
  if asked.holder ~= '' then
    found = subtrees.just(run, agents.item_of(run, asked.holder))
  elseif asked.ancestor ~= '' then
    local below, whole = subtrees.below(run, asked.ancestor, TREE_MAX)
    if whole then found, asked.conditions.an = below, nil end
  end
  if not found then return nil end
  local meets, list, class_set = matcher(run, asked.conditions), {}, {}
  for letter in string.gmatch(asked.classes, '.') do class_set[classes.class_of_letter(letter)] = true end
  for _, entry in ipairs(found) do
    local id, score = unpack(entry)
    local fits = class_set[math.floor(score / CLASS_SIZE)] and ranges.contains(asked.span, score)
    if fits and meets(id, score % CLASS_SIZE) then list[#list + 1] = {id, score % CLASS_SIZE} end
  end
  table.sort(list, windows.comes_before)
  return list
end

-- How many match (-1: no index knows), and whether there are, or may be, more after the page.
local function fill(run, page, asked, budget)
  local list = few(run, asked)
  if list then return #list, windows.cut(page, list) end
  local sets, total, choice = ranges.narrowest(run, asked.scopes, asked.classes, 0)
  local answered, scopes = unpack(asked.scopes[choice])
  asked.conditions[answered] = nil
  local known = not next(asked.conditions) and not scopes[2]
  if known and not ranges.is_everything(asked.span) then
    total = offsets.count_in_spans({sets = sets, span = asked.span}, {asked.span})
  end
  if known and page.last == '' then windows.seek(page, sets, asked.span) end
  local more = windows.walk(page, sets, total, asked.span, matcher(run, asked.conditions), budget)
  return known and total or -1, more
end

return function(run, asked, offset, after, limit, budget)
  return read(run, function()
    local search = cmsgpack.unpack(asked)
    local page = windows.page(search.span, offset, after, tonumber(limit))
    local total, more = fill(run, page, search, tonumber(budget))
    return {run.now, tallies.of_project(run), total, rows.of_all(run, page.ids), more and windows.position(page) or ''}
  end)
end
