-- Items' counts of unsatisfied blockers (`nb`), and how a change of role changes them. In a call: visited, how many
-- edges of items whose role has changed were read; blocked_again, as below.
-- owns: item.nb
local classes = require 'classes'
local debts = require 'debts'
local graph = require 'graph'
local index = require 'index'
local items = require 'items'

local blockers = {}

-- The most counts that a role change updates itself; further ones become debts. An operation on a list stops after this
-- many edges and leaves the rest of its list to another call.
local EDGES_AT_ONCE = 50

-- Counts edges of items whose role has changed.
function blockers.visit(run, edges)
  local own = run[blockers] or {visited = 0}
  own.visited, run[blockers] = own.visited + edges, own
end

-- How many of them this call has read.
function blockers.edges_visited(run)
  return run[blockers] and run[blockers].visited or 0
end

-- The list to which changes of roles add, from now on, the ids of items that have one more unsatisfied blocker.
function blockers.list_blocked_again(run)
  local own, list = run[blockers] or {visited = 0}, {}
  own.blocked_again, run[blockers] = list, own
  return list
end

-- Changes counts, {id -> by how many}, and the items' classes. Skips deleted items.
function blockers.change_counts(run, counts)
  local moved = {}
  for id, by in pairs(counts) do
    local item = items.load(run, id)
    if item then
      local count = (item.nb or 0) + by
      item.nb = count > 0 and count or nil
      local class = not classes.is_held(item) and classes.unclaimed_class(item, item.role)
      local moves = class and index.change_class(run, item, class)
      if moves then moved[#moved + 1] = item end
      if count > 0 then
        items.save_record(run, item, 'nb', count)
      else
        if moves then items.save_record(run, item) end
        redis.call('HDEL', run.keys.item .. id, 'nb')
      end
    end
  end
  index.add_all(run, moved)
end

-- Whether an item has no unsatisfied blocker left, counting debts.
function blockers.is_unblocked(run, item)
  return (item.nb or 0) + debts.owed_count(run, item.id) == 0
end

-- A read-only item with only id, record, count and title.
function blockers.load_count(run, id)
  local values = redis.call('HMGET', run.keys.item .. id, 'nb', 't', 'w')
  local item = {id = id, nb = values[1], t = values[2]}
  if values[3] then items.unpack_record(item, values[3]) end
  return item
end

-- How the count of a dependent changes when its blocker, which has to reach the role `needed`, goes from one role to
-- another; nil: it does not.
local function change_of_count(before, role, needed)
  local was, is = graph.satisfies(before, needed), graph.satisfies(role, needed)
  return was ~= is and (is and -1 or 1) or nil
end

-- After the item's role went from `before` to item.role: updates the counts of everything it blocks. Returns the
-- dependents that have no unsatisfied blocker now.
function blockers.update_dependents(run, item, before)
  local key = run.keys.edges .. item.id
  if run.absent[key] then return {} end
  local edges = redis.call('HGETALL', key)
  local edge_count, counts, seen, blocked, unblocked_items = #edges / 2, {}, {}, {}, {}
  if edge_count == 0 then return unblocked_items end
  blockers.visit(run, edge_count)
  local again = run[blockers].blocked_again or {}
  for n = 1, #edges, 2 do
    local code, other = string.sub(edges[n], 1, 1), string.sub(edges[n], 2)
    if graph.blocks_other(code) then
      local by = change_of_count(before, item.role, graph.threshold_of(edges[n + 1]))
      if by then counts[other] = (counts[other] or 0) + by end
      if by == 1 then again[#again + 1] = other end
      if not seen[other] then
        seen[other] = true
        local whole_item = run.loaded[other] or edge_count <= EDGES_AT_ONCE
        blocked[#blocked + 1] = whole_item and items.load(run, other) or blockers.load_count(run, other)
      end
    end
  end
  if edge_count > EDGES_AT_ONCE then debts.owe_counts(run, counts) else blockers.change_counts(run, counts) end
  for _, other in ipairs(blocked) do
    if blockers.is_unblocked(run, other) then unblocked_items[#unblocked_items + 1] = other end
  end
  return unblocked_items
end

blockers.EDGES_AT_ONCE = EDGES_AT_ONCE

return blockers
