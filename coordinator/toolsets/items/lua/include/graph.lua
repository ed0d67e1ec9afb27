-- @include index
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

-- Changes an item's count of unsatisfied blockers and its class with it.
local function add_blockers(it, by)
  local n = tonumber(it.nb or 0) + by
  put(it, 'nb', n > 0 and n)
  if not is_held(it) then move(it, resting(it, it.role)) end
  save(it)
end

local function move_counts(it, before, edges) -- @rare
  local free, seen = {}, {}
  for n = 1, #edges, 2 do
    local code, other, value = string.sub(edges[n], 1, 1), string.sub(edges[n], 2), edges[n + 1]
    if blocks_other(code) then
      local needed = threshold(value)
      local was, is = satisfies(before, needed), satisfies(it.role, needed)
      local target = load(other)
      if was ~= is then add_blockers(target, is and -1 or 1) end
      if not seen[other] then
        seen[other] = true
        free[#free + 1] = target
      end
    end
  end
  local open = {}
  for _, target in ipairs(free) do
    if not target.nb then open[#open + 1] = target end
  end
  return open
end

-- After the item's role went from `before` to it.role: moves the counts of everything it blocks.
-- Returns the blocked items that have no unsatisfied blocker now (seed 004, unblockedItems).
local function role_moved(it, before)
  local edges = redis.call('HGETALL', K_EDGES .. it.id)
  return edges[1] and move_counts(it, before, edges) or {}
end

-- The unsatisfied blockers of an item as {id, role, needed role}.
local function unsatisfied(it)
  local list = {}
  each_edge(it.id, function(code, other, value)
    if not blocked_by_other(code) then return end
    local blocker, needed = load(other), threshold(value)
    if not satisfies(blocker.role, needed) then list[#list + 1] = {other, blocker.role, needed} end
  end)
  return list
end

-- Stores an edge at both ends; the caller sees to the blocked item's count.
local function store_edge(id, from, to, code, mark)
  redis.call('HSET', K_EDGES .. from, code .. to, id .. mark)
  redis.call('HSET', K_EDGES .. to, far_end(code) .. from, id .. mark)
  redis.call('SET', K_DEPENDENCY .. id, code .. from .. to)
end

-- Takes one edge away at both ends.
local function unlink(near, code, far, value)
  redis.call('HDEL', K_EDGES .. near.id, code .. far.id)
  redis.call('HDEL', K_EDGES .. far.id, far_end(code) .. near.id)
  redis.call('DEL', K_DEPENDENCY .. string.sub(value, 1, 32))
  local blocker, blocked = near, far
  if blocked_by_other(code) then blocker, blocked = far, near end
  if code ~= 'R' and code ~= 'r' and not satisfies(blocker.role, threshold(value)) then add_blockers(blocked, -1) end
end
