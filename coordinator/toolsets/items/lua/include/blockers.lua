-- @include graph
-- @include texts
-- @include debts
-- Items' counts of unsatisfied blockers (`nb`), and how a change of role changes them.

-- The most counts that the script of a role change updates itself; further ones become debts. A script that has visited
-- more edges than this leaves the rest of its list to another run.
local EDGES_AT_ONCE = 50
local edges_visited = 0 -- of items whose role has changed in this run

-- Changes counts, {id -> by how many}, and the items' classes with them. Leaves out items that are gone.
local function change_blocker_counts(counts)
  local moved = {}
  for id, by in pairs(counts) do
    local item = load_item_partly(id)
    if item then
      local key, count = K_ITEM .. id, (item.nb or 0) + by
      item.nb = count > 0 and count or nil
      local moves = not is_held(item) and change_class(item, unclaimed_class(item, item.role))
      if moves then moved[#moved + 1] = item end
      if count > 0 then
        redis.call('HSET', key, 'w', item.score, 'nb', count)
      else
        if moves then redis.call('HSET', key, 'w', item.score) end
        redis.call('HDEL', key, 'nb')
      end
    end
  end
  index_items(moved)
end

-- Whether no unsatisfied blocker is left, what is owed included.
local function is_unblocked(item)
  return (item.nb or 0) + (owed_counts[item.id] or 0) == 0
end

-- An item of which only id, count and title are needed, and which is not to change.
local function load_blocker_count(id)
  local values = redis.call('HMGET', K_ITEM .. id, 'nb', 't')
  return {id = id, nb = values[1], t = values[2]}
end

local blocked_again = {} -- ids of items that have got one more unsatisfied blocker, as a list

-- After the item's role went from `before` to item.role: moves the counts of everything it blocks.
-- Returns the blocked items that have no unsatisfied blocker now (seed 004, unblockedItems).
local function update_dependents(item, before, events_max)
  local edges = redis.call('HGETALL', K_EDGES .. item.id)
  local edge_count, counts, seen, blocked, unblocked_items = #edges / 2, {}, {}, {}, {}
  if edge_count == 0 then return unblocked_items end
  edges_visited = edges_visited + edge_count
  local change_at = {} -- by threshold, of the count of an item that waits for it
  for needed = QUEUE, TERMINAL do
    local was, is = satisfies(before, needed), satisfies(item.role, needed)
    change_at[needed] = was ~= is and (is and -1 or 1) or nil
  end
  for n = 1, #edges, 2 do
    local code, other = string.sub(edges[n], 1, 1), string.sub(edges[n], 2)
    if blocks_other(code) then
      local change = change_at[threshold_of(edges[n + 1])]
      if change then counts[other] = (counts[other] or 0) + change end
      if change == 1 then blocked_again[#blocked_again + 1] = other end
      if not seen[other] then
        seen[other] = true
        local whole_item = loaded[other] or edge_count <= EDGES_AT_ONCE
        blocked[#blocked + 1] = whole_item and load_item(other) or load_blocker_count(other)
      end
    end
  end
  if edge_count > EDGES_AT_ONCE then owe_counts(counts, events_max) else change_blocker_counts(counts) end
  for _, other in ipairs(blocked) do
    if is_unblocked(other) then unblocked_items[#unblocked_items + 1] = other end
  end
  return unblocked_items
end
