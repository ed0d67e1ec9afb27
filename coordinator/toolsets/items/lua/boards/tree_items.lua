--[[
purpose:   Chooses the items of a tree that people see as a graph.
guarantee: A consistent snapshot of at most LOOKED_MAX items. If there are more than `most`, subtrees that have ended as
           a whole are left out first, then the deepest items.
args:      id most
reply:     {items of the tree or -1 for more than LOOKED_MAX, ids: the root first, parents before children; of each
           Below (store/boards/tree_graph.py); whether others than ended ones are left out}
errors:    NOT_FOUND
--]]
local classes = require 'classes'
local items = require 'items'
local read = require 'read'
local subtrees = require 'subtrees'

local CLASS_SIZE, STATES, TERMINAL = classes.CLASS_SIZE, classes.STATES, classes.TERMINAL

local LOOKED_MAX = 1000
local ENDED, AFTER = TERMINAL * STATES * CLASS_SIZE, (TERMINAL + 1) * STATES * CLASS_SIZE

local function is_ended(score)
  return score >= ENDED and score < AFTER
end

-- By id: {items below, ended ones of these}. In `below` parents come before their children.
local function count_below(root, below)
  local counts = {[root] = {0, 0}}
  for _, entry in ipairs(below) do counts[entry[1]] = {0, 0} end
  for n = #below, 1, -1 do
    local entry = below[n]
    local own, above = counts[entry[1]], counts[entry[3]]
    above[1], above[2] = above[1] + own[1] + 1, above[2] + own[2] + (is_ended(entry[2]) and 1 or 0)
  end
  return counts
end

-- The entries to show below the root: all, or those that are open or have open ones below; and whether some are left
-- out even so.
local function chosen(below, counts, most)
  local list = {}
  for _, entry in ipairs(below) do
    local under = counts and #below > most and counts[entry[1]]
    if not (under and under[1] == under[2] and is_ended(entry[2])) then list[#list + 1] = entry end
  end
  local cut = #list > most
  for n = #list, most + 1, -1 do list[n] = nil end
  return list, cut
end

-- By id: how many of the items below are shown.
local function count_shown(list)
  local shown = {}
  for n = #list, 1, -1 do
    local id, parent = list[n][1], list[n][3]
    shown[parent] = (shown[parent] or 0) + (shown[id] or 0) + 1
  end
  return shown
end

return function(run, id, most)
  return read(run, function()
    if not items.load(run, id) then return redis.error_reply('FLEET NOT_FOUND') end
    local below, whole = subtrees.below(run, id, LOOKED_MAX)
    local counts = whole and count_below(id, below)
    local list, cut = chosen(below, counts, most - 1)
    local shown, ids, numbers = count_shown(list), {id}, {}
    for n, entry in ipairs(list) do ids[n + 1] = entry[1] end
    for n, one in ipairs(ids) do
      local own = counts and counts[one]
      numbers[n] = own and {own[1], own[2], own[1] - (shown[one] or 0)} or {-1, -1, -1}
    end
    return {whole and #below + 1 or -1, ids, numbers, cut or not whole}
  end)
end
