-- @include batch
-- Dependency edges. Each end of an edge holds it in its own hash: field = code .. other end (unique
-- per pair and type), value = dependency id .. threshold ('-' = none given, terminal). Codes, seen from
-- the item that holds the edge:
--   B  from here, BLOCKS        this item blocks the other      b  the same edge at its target
--   I  from here, IS_BLOCKED_BY the other blocks this item      i  the same edge at its target
--   R  from here, RELATES_TO    nothing blocks                  r  the same edge at its target
-- `nb` on an item counts its unsatisfied blocking edges, so readiness is one field.

-- The code of the same edge as its other end holds it.
local function code_at_other_end(code)
  return code < 'a' and string.lower(code) or string.upper(code)
end

local function blocks_other(code)
  return code == 'B' or code == 'i'
end

local function blocked_by_other(code)
  return code == 'b' or code == 'I'
end

-- The role that a blocker has to reach, by the value of the edge.
local function threshold_of(value)
  return tonumber(string.sub(value, 33, 33)) or TERMINAL
end

-- A blocker satisfies once it has reached the threshold; one in BLOCKED never does (seed 004).
local function satisfies(role, needed)
  return role ~= BLOCKED and role >= needed
end

-- Calls visit(code, other, value) for each edge of the item.
local function each_edge(id, visit)
  local flat = redis.call('HGETALL', K_EDGES .. id)
  for n = 1, #flat, 2 do visit(string.sub(flat[n], 1, 1), string.sub(flat[n], 2), flat[n + 1]) end
end

-- The unsatisfied blockers of an item as {id, role, needed role}; `most` of them, if that is given.
local function unsatisfied_blockers(item, most)
  local list = {}
  each_edge(item.id, function(code, other, value)
    if not blocked_by_other(code) or #list == most then return end
    local role, needed = load_role(other), threshold_of(value)
    if not satisfies(role, needed) then list[#list + 1] = {other, role, needed} end
  end)
  return list
end

-- Stores edges {id, from, to, code, threshold mark ..} at both ends; the caller sees to the blocked items' counts.
local function store_edges(list)
  local ends, sizes = {}, {} -- by item: fields and values in turn, and how many these are
  local ids, stored = {}, 0 -- K_DEPENDENCY: id -> code .. from .. to
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
    add_field(to, code_at_other_end(code) .. from, value)
    ids[stored + 1], ids[stored + 2], stored = K_DEPENDENCY .. edge[1], code .. from .. to, stored + 2
  end
  for item_id, fields in pairs(ends) do call_in_parts('HSET', K_EDGES .. item_id, fields) end
  call_in_parts('MSET', nil, ids)
end
