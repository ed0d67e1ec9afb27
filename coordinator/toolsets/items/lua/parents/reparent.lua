-- Moves an item with its subtree under another parent or to the roots.
-- owns: item.d item.pa
local available = require 'available'
local bounds = require 'bounds'
local budgets = require 'budgets'
local children = require 'children'
local claims = require 'claims'
local classes = require 'classes'
local item_events = require 'item_events'
local items = require 'items'
local usage = require 'usage'

local MAX_DEPTH, TERMINAL = items.MAX_DEPTH, classes.TERMINAL

local reparent = {}

local MOVED_MAX = 700 -- descendants of an item that changes its depth

-- The ids below an item by level; nil if there are more than MOVED_MAX in all.
local function descendants(run, id)
  local levels, level, left = {}, {id}, MOVED_MAX
  while level[1] do
    local below = {}
    for _, above in ipairs(#levels < MAX_DEPTH and level or {}) do
      for _, child in ipairs(redis.call('ZRANGE', run.keys.ranked .. 'p' .. above, 0, left)) do
        below[#below + 1], left = child, left - 1
      end
      if left < 0 then return nil end
    end
    if below[1] then levels[#levels + 1] = below end
    level = below
  end
  return levels
end

-- The change of depth under the new parent, the descendants that change with it (by level), and the parent; or nil and
-- the reason. What was used goes with the item, so it leaves a budget above it only if the caller may raise that.
function reparent.plan(run, item, parent_id, may_raise)
  local above = parent_id ~= '' and items.load(run, parent_id)
  if parent_id ~= '' and not above then return nil, 'parent_' .. items.absence_reason(parent_id) end
  local shift = (above and above.depth + 1 or 0) - item.depth
  local ancestor, stays_above = above, {}
  while ancestor do
    if ancestor.id == item.id then return nil, 'parent_cycle' end
    stays_above[ancestor.id] = true
    ancestor = ancestor.pa and items.load(run, ancestor.pa)
  end
  local left = not may_raise and (item.us or item.ub) and item.pa and items.load(run, item.pa)
  while left and not stays_above[left.id] do
    if left.bu then return nil, 'budget_not_left' end
    left = left.pa and items.load(run, left.pa)
  end
  local below = shift == 0 and {} or descendants(run, item.id)
  if not below then return nil, 'too_many_below' end
  if item.depth + shift + #below > MAX_DEPTH then return nil, 'too_deep' end
  return shift, below, above
end

-- Moves an item as planned, to be indexed and saved by the caller.
function reparent.apply(run, item, parent_id, shift, below)
  local lapsed, from = item.holder and not classes.is_held(item), item.pa
  if lapsed then claims.count_lapsed(run, item, -1) end
  items.set(item, 'pa', parent_id ~= '' and parent_id)
  if lapsed then claims.count_lapsed(run, item, 1) end
  item.depth = item.depth + shift
  items.set(item, 'd', item.depth > 0 and item.depth)
  bounds.move(run, item, from)
  item_events.forget_roots(run)
  budgets.forget_spent(run)
  usage.move(run, item, from)
  if from then children.changed(run, from) end
  if item.pa and item.role == TERMINAL then
    children.changed(run, item.pa)
  elseif item.pa then
    children.opened(run, item.pa)
  end
  available.note(run, 'freed', item.id) -- its subtree may no longer be below a held item
  for level, ids in ipairs(below) do
    for _, id in ipairs(ids) do
      redis.call('HSET', run.keys.item .. id, 'd', item.depth + level)
      if run.loaded[id] then run.loaded[id].depth = item.depth + level end
    end
  end
end

return reparent
