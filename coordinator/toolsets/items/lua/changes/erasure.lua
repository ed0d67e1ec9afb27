-- Removes items from the store with all their data. In a call: spared, by id: an edge that goes last; and what
-- `erasure.finish` removes: scopes, ids by scope; sets, classes by member of the key apart; required, by set of
-- capabilities how many required it.
-- owns: none
local abandoned = require 'abandoned'
local apart = require 'apart'
local batch = require 'batch'
local blockers = require 'blockers'
local bounds = require 'bounds'
local children = require 'children'
local claims = require 'claims'
local classes = require 'classes'
local demands = require 'demands'
local due_times = require 'due_times'
local fairness = require 'fairness'
local graph = require 'graph'
local held_back = require 'held_back'
local index = require 'index'
local item_events = require 'item_events'
local items = require 'items'
local notes = require 'notes'
local requirements = require 'requirements'
local unlink = require 'unlink'
local usage = require 'usage'

local EDGES_AT_ONCE = blockers.EDGES_AT_ONCE

local erasure = {}

local function own_of(run)
  run[erasure] = run[erasure] or {spared = {}, scopes = {}, sets = {}, required = {}}
  return run[erasure]
end

-- A blocking edge of the item, or nil. While that edge exists, the item cannot become ready as its other edges are
-- removed.
local function spared_edge(run, item)
  local spared = own_of(run).spared
  if item.nb and not spared[item.id] then
    graph.each_edge(run, item.id, function(code, other, value)
      if graph.waits_for(run, code, other, value) then spared[item.id] = code .. other end
    end)
  end
  return spared[item.id]
end

-- Removes a field and its value from a list.
local function leave_out(edges, field)
  for n = 1, #edges, 2 do
    if edges[n] == field then
      table.remove(edges, n)
      table.remove(edges, n)
      return
    end
  end
end

-- Removes an item that has no children, with its claim, edges, notes and index entries; `erasure.finish` must follow,
-- once for all items. Dependents lose a blocker and may become ready. If the item has very many edges, only some are
-- removed. Returns whether the item was removed, and how many edges and notes were.
function erasure.erase(run, item)
  local id, left = item.id, own_of(run)
  local edges = unlink.next_edges(run, id)
  if redis.call('HLEN', run.keys.edges .. id) > EDGES_AT_ONCE then
    leave_out(edges, spared_edge(run, item))
    unlink.remove(run, item, edges)
    return false, EDGES_AT_ONCE
  end
  if item.holder then claims.finish(run, item) end
  held_back.forget(run, item)
  due_times.forget(run, item)
  usage.forget(run, item)
  abandoned.forget(run, item)
  if edges[1] then unlink.remove(run, item, edges, true) end
  index.remove(run, 'p' .. (item.pa or ''), {id})
  bounds.remove(run, item, item.pa)
  if item.as and classes.READY_CLASSES[item.class] then
    left.sets[apart.member(apart.set_of(item), item.class)] = item.class
  end
  for scope in pairs(index.entries_of(item)) do table.insert(batch.list_in(left.scopes, scope), id) end
  if item.rp then fairness.forget(run, item) end
  if item.rs and item.role ~= classes.TERMINAL then demands.count(run, item.rs, -1) end
  if item.rq then left.required[item.rq] = (left.required[item.rq] or 0) + 1 end
  local removed = #edges / 2 + notes.forget(run, id)
  items.erase(run, id)
  if item.pa then children.changed(run, item.pa) end
  item_events.emit(run, 'delete', item)
  return true, removed
end

-- Removes the erased items from shared scopes.
function erasure.finish(run)
  local left = own_of(run)
  for scope, ids in pairs(left.scopes) do
    if string.sub(scope, 1, 1) ~= 'p' then index.remove(run, scope, ids) end
  end
  for member, class in pairs(left.sets) do apart.refresh(run, apart.set_of_member(member), class) end
  for set, count in pairs(left.required) do requirements.discount(run, set, count) end
end

return erasure
