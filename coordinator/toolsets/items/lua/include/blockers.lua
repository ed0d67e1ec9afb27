-- @include graph
-- @include texts
-- @include debts
-- Items' counts of unsatisfied blockers (`nb`), and what follows from a change of role for them.

local AT_ONCE = 50 -- counts that one change changes in its own script; what has changed so many edges goes on in another
local edges_moved = 0 -- of items whose role has changed in this run

-- Changes counts, {id -> by how many}, and the items' classes with them. Leaves out items that are gone.
local function add_blockers(counts)
  local moved = {}
  for id, by in pairs(counts) do
    local it = glance(id)
    if it then
      local key, n = K_ITEM .. id, (it.nb or 0) + by
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
  end
  rank_all(moved)
end

local function is_open(it)
  return (it.nb or 0) + (owing[it.id] or 0) == 0
end

-- An item of which only its id, count and title are needed.
local function peek(id)
  local f = redis.call('HMGET', K_ITEM .. id, 'nb', 't')
  f.id, f.nb, f.t = id, f[1], f[2]
  return f
end

-- After the item's role went from `before` to it.role: moves the counts of everything it blocks.
-- Returns the blocked items that have no unsatisfied blocker now (seed 004, unblockedItems).
local function role_moved(it, before, cap)
  local edges = redis.call('HGETALL', K_EDGES .. it.id)
  local count, counts, seen, blocked, open = #edges / 2, {}, {}, {}, {}
  if count == 0 then return open end
  edges_moved = edges_moved + count
  local by = {} -- by threshold
  for needed = QUEUE, TERMINAL do
    local was, is = satisfies(before, needed), satisfies(it.role, needed)
    by[needed] = was ~= is and (is and -1 or 1) or nil
  end
  for n = 1, 2 * count, 2 do
    local code, other = string.sub(edges[n], 1, 1), string.sub(edges[n], 2)
    if blocks_other(code) then
      local change = by[threshold(edges[n + 1])]
      if change then counts[other] = (counts[other] or 0) + change end
      if not seen[other] then
        seen[other] = true
        blocked[#blocked + 1] = (loaded[other] or count <= AT_ONCE) and load(other) or peek(other)
      end
    end
  end
  if count > AT_ONCE then owe(counts, cap) else add_blockers(counts) end
  for _, other in ipairs(blocked) do
    if is_open(other) then open[#open + 1] = other end
  end
  return open
end
