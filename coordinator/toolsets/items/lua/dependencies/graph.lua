-- Dependency edges. Each end of an edge holds it in its own hash: field = code .. other end (unique
-- per pair and type), value = dependency id .. threshold ('-' = none given, terminal). Codes, seen from
-- the item that holds the edge:
--   B  from here, BLOCKS        this item blocks the other      b  the same edge at its target
--   I  from here, IS_BLOCKED_BY the other blocks this item      i  the same edge at its target
--   R  from here, RELATES_TO    nothing blocks                  r  the same edge at its target
-- `nb` on an item counts its unsatisfied blocking edges, so readiness is one field.
-- owns: edges dependency
local batch = require 'batch'
local classes = require 'classes'
local items = require 'items'

local BLOCKED, TERMINAL = classes.BLOCKED, classes.TERMINAL

local graph = {}

-- The code of the same edge at its other end.
function graph.code_at_other_end(code)
  return code < 'a' and string.lower(code) or string.upper(code)
end

function graph.blocks_other(code)
  return code == 'B' or code == 'i'
end

function graph.blocked_by_other(code)
  return code == 'b' or code == 'I'
end

-- The blocker and the blocked item of an edge in the form of `graph.store`; nil for RELATES_TO.
function graph.blocking_ends(edge)
  local from, to, code = edge[2], edge[3], edge[4]
  if code == 'B' then return from, to end
  if code == 'I' then return to, from end
end

-- The role that a blocker must reach, from the value of the edge.
function graph.threshold_of(value)
  return tonumber(string.sub(value, 33, 33)) or TERMINAL
end

-- A blocker satisfies once it has reached the threshold; one in BLOCKED never does.
function graph.satisfies(role, needed)
  return role ~= BLOCKED and role >= needed
end

-- Whether the item that holds this edge waits for its other end.
function graph.waits_for(run, code, other, value)
  return graph.blocked_by_other(code) and not graph.satisfies(items.load_role(run, other), graph.threshold_of(value))
end

-- Calls visit(code, other, value) for each edge of the item.
function graph.each_edge(run, id, visit)
  local flat = redis.call('HGETALL', run.keys.edges .. id)
  for n = 1, #flat, 2 do visit(string.sub(flat[n], 1, 1), string.sub(flat[n], 2), flat[n + 1]) end
end

-- The unsatisfied blockers of an item as a list of {id, role, needed role}; at most `most`, if that is given.
function graph.unsatisfied_blockers(run, item, most)
  local list = {}
  graph.each_edge(run, item.id, function(code, other, value)
    if not graph.blocked_by_other(code) or #list == most then return end
    local role, needed = items.load_role(run, other), graph.threshold_of(value)
    if not graph.satisfies(role, needed) then list[#list + 1] = {other, role, needed} end
  end)
  return list
end

-- The same for an item that can still move forward, free if no blocker is unsatisfied; else none.
function graph.unsatisfied_blockers_ahead(run, item)
  return item.nb and item.role < TERMINAL and graph.unsatisfied_blockers(run, item) or {}
end

-- One page of an item's edges: the next cursor, then {field, value, field, value ...} as stored. A cursor is a position
-- in the edges of one item, '0' at either end; edges that do not change meanwhile come at least once. `count` is the
-- target size of a page of many edges; about a hundred always come at once.
function graph.edge_page(run, id, cursor, count)
  return unpack(redis.call('HSCAN', run.keys.edges .. id, cursor, 'COUNT', count))
end

-- Stores a list of edges {id, from, to, code B I or R, threshold mark} at both ends; the caller updates the blocked
-- items' counts.
function graph.store(run, list)
  local ends, sizes = {}, {} -- by item: fields and values in turn, and how many these are
  local ids, stored = {}, 0 -- dependency: id -> code .. from .. to
  local function add_field(item_id, field, value)
    local fields, size = ends[item_id], sizes[item_id] or 0
    if not fields then
      fields = {field, value}
      ends[item_id] = fields
    end
    fields[size + 1], fields[size + 2], sizes[item_id] = field, value, size + 2
  end
  for _, edge in ipairs(list) do
    local from, to, code, value = edge[2], edge[3], edge[4], edge[1] .. edge[5]
    add_field(from, code .. to, value)
    add_field(to, graph.code_at_other_end(code) .. from, value)
    ids[stored + 1], ids[stored + 2], stored = run.keys.dependency .. edge[1], code .. from .. to, stored + 2
  end
  for item_id, fields in pairs(ends) do batch.call('HSET', run.keys.edges .. item_id, fields) end
  batch.call_keys('MSET', ids)
end

-- Removes fields of edges, {item -> fields}, and the entries of their ids.
function graph.remove(run, fields, ids)
  for item_id, gone in pairs(fields) do batch.call('HDEL', run.keys.edges .. item_id, gone) end
  local keys = {}
  for n, id in ipairs(ids) do keys[n] = run.keys.dependency .. id end
  batch.call_keys('DEL', keys)
end

return graph
