-- @include graph
-- Cycle check by levels: each item has a level (`lv`, 0 when absent) and every blocker's level is below
-- that of what it blocks. An edge that already points upwards needs no search. Otherwise both repairs
-- are tried in lockstep, raising what the edge blocks or lowering what blocks it, and the one that ends
-- first is taken; a repair that arrives at the edge's other end has found a cycle. So building a graph
-- front to back or back to front costs O(1) an edge, and joining two costs the smaller one's size.

local function neighbours(id, wanted, added)
  local list = {}
  each_edge(id, function(code, other)
    if wanted(code) then list[#list + 1] = other end
  end)
  for _, other in ipairs(added[id] or {}) do list[#list + 1] = other end
  return list
end

-- A repair in steps: from `start` at `level`, in direction `step` (+1 raises what is blocked, -1 lowers
-- blockers); `added` are edges of this batch that are not stored yet.
local function repair(start, level, step, stop, level_of, added)
  local moved, todo, head = {[start] = level}, {start}, 1
  local wanted = step > 0 and blocks_other or blocked_by_other
  return function()
    if head > #todo then return 'done', moved end
    local id = todo[head]
    head = head + 1
    local bound = moved[id] + step
    for _, other in ipairs(neighbours(id, wanted, added)) do
      if other == stop then return 'cycle' end
      local now = moved[other] or level_of(other)
      if (step > 0 and now < bound) or (step < 0 and now > bound) then
        moved[other] = bound
        todo[#todo + 1] = other
      end
    end
    return head > #todo and 'done' or 'more', moved
  end
end

-- A check over one batch: try(blocker, blocked) is false where the edge would close a cycle, else the
-- levels are mended in memory; keep() puts them on the items and returns the ids of these, to be saved.
local function level_check()
  local level, above, below = {}, {}, {}
  local function level_of(id)
    if level[id] == nil then level[id] = tonumber(load(id).lv or 0) end
    return level[id]
  end
  local changed = {}
  local function try(blocker, blocked)
    if blocker == blocked then return false end
    if level_of(blocked) <= level_of(blocker) then
      local up = repair(blocked, level_of(blocker) + 1, 1, blocker, level_of, above)
      local down = repair(blocker, level_of(blocked) - 1, -1, blocked, level_of, below)
      local state, moved
      repeat
        state, moved = up()
        if state == 'more' then state, moved = down() end
        if state == 'cycle' then return false end
      until state == 'done'
      for id, value in pairs(moved) do
        level[id] = value
        changed[id] = true
      end
    end
    above[blocker] = above[blocker] or {}
    table.insert(above[blocker], blocked)
    below[blocked] = below[blocked] or {}
    table.insert(below[blocked], blocker)
    return true
  end
  local function keep()
    for id in pairs(changed) do put(load(id), 'lv', level[id] ~= 0 and level[id]) end
    return changed
  end
  return try, keep
end
