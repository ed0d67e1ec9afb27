-- @include graph
-- Cycle check by levels: each item has a level (`lv`, 0 when absent) and every blocker's level is below
-- that of what it blocks. An edge that already points upwards needs no search. Otherwise both repairs
-- are tried in lockstep, raising what the edge blocks or lowering what blocks it, and the one that ends
-- first is taken; a repair that arrives at the edge's other end has found a cycle. So building a graph
-- front to back or back to front costs O(1) an edge, and joining two costs the smaller one's size.

local counted, known = {}, {}

-- How many edges of an item are stored.
local function edges_stored(id)
  counted[id] = counted[id] or redis.call('HLEN', K_EDGES .. id)
  return counted[id]
end

-- What an item blocks (1) and what blocks it (-1), as stored. Read once for all edges of a batch.
local function neighbours(id)
  if not known[id] then
    local blocked, blockers = {}, {}
    if counted[id] ~= 0 then
      each_edge(id, function(code, other)
        if blocks_other(code) then blocked[#blocked + 1] = other end
        if blocked_by_other(code) then blockers[#blockers + 1] = other end
      end)
    end
    known[id] = {[1] = blocked, [-1] = blockers}
  end
  return known[id]
end

-- A repair in steps: from `start` at `level`, in direction `step` (+1 raises what is blocked, -1 lowers
-- blockers); `added` are edges of this batch that are not stored yet.
local function repair(start, level, step, stop, level_of, added)
  local moved, todo, head = {[start] = level}, {start}, 1
  local function look(list, bound)
    for _, other in ipairs(list or {}) do
      if other == stop then return 'cycle' end
      local now = moved[other] or level_of(other)
      if (step > 0 and now < bound) or (step < 0 and now > bound) then
        moved[other] = bound
        todo[#todo + 1] = other
      end
    end
  end
  return function()
    if head > #todo then return 'done', moved end
    local id = todo[head]
    head = head + 1
    local found = look(neighbours(id)[step], moved[id] + step) or look(added[id], moved[id] + step)
    return found or (head > #todo and 'done') or 'more', moved
  end
end

-- A check over one batch: try(blocker, blocked) is false where the edge would close a cycle, else the
-- levels are mended in memory; keep() puts them on the items, to be saved where these are loaded.
local function level_check()
  local level, above, below, changed = {}, {}, {}, {}
  local function level_of(id)
    if not level[id] then
      level[id] = tonumber(loaded[id] and (loaded[id].lv or 0) or redis.call('HGET', K_ITEM .. id, 'lv') or 0)
    end
    return level[id]
  end
  local function try(blocker, blocked)
    if blocker == blocked then return false end
    if level_of(blocked) <= level_of(blocker) then
      local up = repair(blocked, level_of(blocker) + 1, 1, blocker, level_of, above)
      local down, state, moved
      repeat
        state, moved = up()
        if state == 'more' then
          down = down or repair(blocker, level_of(blocked) - 1, -1, blocked, level_of, below)
          state, moved = down()
        end
        if state == 'cycle' then return false end
      until state == 'done'
      for id, value in pairs(moved) do
        level[id], changed[id] = value, true
      end
    end
    table.insert(list_at(above, blocker), blocked)
    table.insert(list_at(below, blocked), blocker)
    return true
  end
  local function keep()
    for id in pairs(changed) do
      local value = level[id] ~= 0 and level[id]
      if loaded[id] then
        put(loaded[id], 'lv', value)
      elseif value then
        redis.call('HSET', K_ITEM .. id, 'lv', value)
      else
        redis.call('HDEL', K_ITEM .. id, 'lv')
      end
    end
  end
  return try, keep
end
