-- @include together
-- Dependency edges. Each end of an edge holds it in its own hash: field = code .. other end (unique
-- per pair and type), value = dependency id .. threshold ('-' = none given, terminal). Codes, seen from
-- the item that holds the edge:
--   B  from here, BLOCKS        this item blocks the other      b  the same edge at its target
--   I  from here, IS_BLOCKED_BY the other blocks this item      i  the same edge at its target
--   R  from here, RELATES_TO    nothing blocks                  r  the same edge at its target
-- `nb` on an item counts its unsatisfied blocking edges, so readiness is one field.

local function far_end(code)
  return code < 'a' and string.lower(code) or string.upper(code)
end

local function blocks_other(code)
  return code == 'B' or code == 'i'
end

local function blocked_by_other(code)
  return code == 'b' or code == 'I'
end

local function threshold(value)
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

-- Changes items' counts of unsatisfied blockers, {item -> by how many}, and their classes with them.
local function add_blockers(counts)
  local moved = {}
  for it, by in pairs(counts) do
    local key, n = K_ITEM .. it.id, (it.nb or 0) + by
    it.nb = n > 0 and n or nil
    local moves = not is_held(it) and reclass(it, resting(it, it.role))
    if moves then moved[#moved + 1] = it end
    if n > 0 then
      redis.call('HSET', key, 'w', it.w, 'nb', n)
    else
      if moves then redis.call('HSET', key, 'w', it.w) end
      redis.call('HDEL', key, 'nb')
    end
  end
  rank_all(moved)
end

local function move_counts(it, before, edges)
  local counts, blocked, seen = {}, {}, {}
  for n = 1, #edges, 2 do
    local code, other = string.sub(edges[n], 1, 1), string.sub(edges[n], 2)
    if blocks_other(code) then
      local needed = threshold(edges[n + 1])
      local was, is = satisfies(before, needed), satisfies(it.role, needed)
      local target = load(other)
      if was ~= is then counts[target] = (counts[target] or 0) + (is and -1 or 1) end
      if not seen[other] then
        seen[other] = true
        blocked[#blocked + 1] = target
      end
    end
  end
  add_blockers(counts)
  local open = {}
  for _, target in ipairs(blocked) do
    if not target.nb then open[#open + 1] = target end
  end
  return open
end

local EDGES_A_RUN = 400 -- a batch of role changes goes on in another run after so many edges
local edges_moved = 0 -- of items whose role has changed in this run

-- After the item's role went from `before` to it.role: moves the counts of everything it blocks.
-- Returns the blocked items that have no unsatisfied blocker now (seed 004, unblockedItems).
local function role_moved(it, before)
  local edges = redis.call('HGETALL', K_EDGES .. it.id)
  edges_moved = edges_moved + #edges / 2
  return edges[1] and move_counts(it, before, edges) or {}
end

-- The unsatisfied blockers of an item as {id, role, needed role}.
local function unsatisfied(it)
  local list = {}
  each_edge(it.id, function(code, other, value)
    if not blocked_by_other(code) then return end
    local role, needed = role_at(other), threshold(value)
    if not satisfies(role, needed) then list[#list + 1] = {other, role, needed} end
  end)
  return list
end

-- Stores edges {id, from, to, code, mark ..} at both ends; the caller sees to the blocked items' counts.
local function store_edges(list)
  local ends, sizes, ids, stored = {}, {}, {}, 0
  local function hold(item, field, value)
    local fields, size = ends[item], sizes[item] or 0
    if not fields then
      fields = {field, value}
      ends[item] = fields
    end
    fields[size + 1], fields[size + 2], sizes[item] = field, value, size + 2
  end
  for _, edge in ipairs(list) do
    local from, to, code, value = edge[2], edge[3], edge[4], edge[1] .. edge[5]
    hold(from, code .. to, value)
    hold(to, far_end(code) .. from, value)
    ids[stored + 1], ids[stored + 2], stored = K_DEPENDENCY .. edge[1], code .. from .. to, stored + 2
  end
  for item, fields in pairs(ends) do in_parts('HSET', K_EDGES .. item, fields) end
  in_parts('MSET', nil, ids)
end
