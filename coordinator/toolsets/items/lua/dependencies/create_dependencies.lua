--[[
purpose:   Creates dependency edges, all or none.
guarantee: No duplicate (from, to, type), no self-edge, no cycle among blocking edges, over the whole batch. The
           readiness of every blocked item is updated in the same step, or recorded as a debt.
args:      request run.events_max run.terms edges cyclic
           edges = packed list of {dependency id, from, to, code B|I|R, threshold mark}; cyclic = packed list of
           the positions of edges that the caller knows to close a cycle
reply:     Linked (store/dependencies.py). If it says `far`, no edge was created, because one needs a large repair of
           levels: the caller makes that in slices (shift_levels.lua) and calls again
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local blockers = require 'blockers'
local change = require 'change'
local classes = require 'classes'
local debts = require 'debts'
local graph = require 'graph'
local item_events = require 'item_events'
local items = require 'items'
local levels = require 'levels'
local neighbours = require 'neighbours'

local EDGES_AT_ONCE = blockers.EDGES_AT_ONCE
local TERMINAL = classes.TERMINAL

local ITEM_EDGES_MAX = 600 -- per item: all are read when its role changes

-- Why an item cannot have one more edge; or nil, and the edge is counted in `counts`, by item.
local function end_problem(run, id, counts)
  if not items.load(run, id) then return items.absence_reason(id) end
  local count = (counts[id] or neighbours.edges_stored(run, id)) + 1
  counts[id] = count
  return count > ITEM_EDGES_MAX and 'too_many_edges' or nil
end

-- Why an edge is invalid, regardless of levels, and the end at fault ('' for the edge itself); nil if it is valid.
-- `batch` = {counts, seen}: the state after the previous edges.
local function problem(run, edge, batch)
  local from, to, code = edge[2], edge[3], edge[4]
  local resolved = string.sub(from, 1, 1) ~= '?' -- two unresolved prefixes look alike
  if from == to and resolved then return 'self', '' end
  local reason = end_problem(run, from, batch.counts)
  if reason then return reason, 'from' end
  reason = end_problem(run, to, batch.counts)
  if reason then return reason, 'to' end
  local key, stored = code .. from .. to, neighbours.edges_stored(run, from) > 0
  stored = stored and redis.call('HEXISTS', run.keys.edges .. from, code .. to) == 1
  if stored or batch.seen[key] then return 'duplicate', '' end
  batch.seen[key] = true
end

-- Checks the edges in turn. Returns the failures; and an edge that needs a large repair of levels as `far` of the
-- reply, else nil.
local function check(run, edges, known_cyclic, order)
  local failures, batch = {}, {counts = {}, seen = {}}
  for n, edge in ipairs(edges) do
    local position = n - 1
    local reason, cause = problem(run, edge, batch)
    local blocker, blocked = graph.blocking_ends(edge)
    if blocker and not reason then
      local fits, level, other_level = false, nil, nil
      if not known_cyclic[position] then fits, level, other_level = levels.try_edge(run, order, blocker, blocked) end
      if fits == nil then return failures, {position, blocker, blocked, level, other_level} end
      if not fits then reason, cause = 'cycle', '' end
    end
    if reason then failures[#failures + 1] = {position, reason, cause} end
  end
  return failures
end

-- Stores the edges, and updates counts of blockers.
local function store(run, edges)
  local waits, waiting = {}, 0 -- by item: how many more blockers it waits for
  graph.store(run, edges)
  for _, edge in ipairs(edges) do
    local blocker, blocked = graph.blocking_ends(edge)
    if blocker and not graph.satisfies(run.loaded[blocker].role, tonumber(edge[5]) or TERMINAL) then
      if not waits[blocked] then waiting = waiting + 1 end
      waits[blocked] = (waits[blocked] or 0) + 1
    end
    item_events.emit_of(run, 'link', edge[2], 'o', edge[3], 'c', edge[4])
  end
  if waiting > EDGES_AT_ONCE then debts.owe_counts(run, waits) else blockers.change_counts(run, waits) end
end

return function(run, request, edges, cyclic)
  return change(run, request, {}, function()
    local list, known_cyclic, ids = cmsgpack.unpack(edges), {}, {}
    for _, position in ipairs(cmsgpack.unpack(cyclic)) do known_cyclic[position] = true end
    local order = levels.start()
    local failures, far = check(run, list, known_cyclic, order)
    if far then
      levels.store(run, order) -- repaired levels need no repair in the next call
      return {failures, {}, {far}}, false
    end
    for n, edge in ipairs(list) do ids[n] = {edge[1], edge[2], edge[3], edge[5]} end
    if #failures == 0 then
      levels.store(run, order)
      store(run, list)
    end
    return {failures, ids, {}}
  end)
end
