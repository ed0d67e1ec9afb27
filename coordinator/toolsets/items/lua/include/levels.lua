-- @include neighbours
-- Cycle check by levels: each item has a level (`lv`, 0 when absent) and every blocker's level is below
-- that of what it blocks. An edge that already points upwards needs no search, nor does one from an item that
-- nothing blocks or to one that blocks nothing. Otherwise both repairs are tried in lockstep, raising what the edge
-- blocks or lowering what blocks it: the one that ends first is taken, and one that arrives at the edge's other end
-- has found a cycle. So building a graph in order costs O(1) an edge, and joining two the smaller one's size. One run
-- looks at a bounded number of edges for it; where that is not enough the caller moves levels in slices before.

local EDGES_MAX = 300 -- edges that one run looks at for repairs
local edges_looked_at = 0

-- A repair in steps: from `start`, which goes to `level`, in direction `step` (+1 raises what is blocked, -1 lowers
-- blockers); `added` are edges of this batch that are not stored yet. Each call of what it returns looks beyond one
-- item, and gives 'more', 'done' or 'cycle' (`stop` was reached), and the levels {id -> level} so far.
local function repair(start, level, step, stop, level_of, added)
  local moved, queue, head = {[start] = level}, {start}, 1
  local function look(list, bound)
    edges_looked_at = edges_looked_at + 1 + #(list or {})
    for _, other in ipairs(list or {}) do
      if other == stop then return 'cycle' end
      local present = moved[other] or level_of(other)
      if (step > 0 and present < bound) or (step < 0 and present > bound) then
        moved[other] = bound
        queue[#queue + 1] = other
      end
    end
  end
  return function()
    if head > #queue then return 'done', moved end
    local id = queue[head]
    head = head + 1
    local found = look(neighbours(id)[step], moved[id] + step) or look(added[id], moved[id] + step)
    return found or (head > #queue and 'done') or 'more', moved
  end
end

-- A check over one batch: try_edge(blocker, blocked) is false where the edge would close a cycle, nil and the levels of
-- both where the repair is too large for this run; else the levels are mended in memory. keep_levels()
-- stores them.
local function level_check()
  local level, changed = {}, {} -- by item
  local taken, ends = {}, 0 -- edges of the batch so far, blocker and blocked in turn, and how many these are
  local blocks, waits = {}, {} -- items that are a blocker, or blocked, in one of them
  local above, below, indexed = {}, {}, 0 -- of the first `indexed` of them, by item: what it blocks, what blocks it
  local function level_of(id)
    if not level[id] then level[id] = loaded[id] and tonumber(loaded[id].lv or 0) or load_level(id) end
    return level[id]
  end
  local function index_taken()
    for n = indexed + 1, ends, 2 do
      table.insert(get_or_add_list(above, taken[n]), taken[n + 1])
      table.insert(get_or_add_list(below, taken[n + 1]), taken[n])
    end
    indexed = ends
  end
  local function mend(blocker, blocked)
    index_taken()
    local up = repair(blocked, level_of(blocker) + 1, 1, blocker, level_of, above)
    local down = repair(blocker, level_of(blocked) - 1, -1, blocked, level_of, below)
    local state, moved
    repeat
      if edges_looked_at > EDGES_MAX then return nil end
      state, moved = up()
      if state == 'more' then state, moved = down() end
      if state == 'cycle' then return false end
    until state == 'done'
    for id, value in pairs(moved) do
      level[id], changed[id] = value, true
    end
    return true
  end
  local function try_edge(blocker, blocked)
    local low, high = level_of(blocker), level_of(blocked)
    if high <= low then
      if not blocks[blocked] and edges_stored(blocked) == 0 then
        level[blocked], changed[blocked] = low + 1, true
      elseif not waits[blocker] and edges_stored(blocker) == 0 then
        level[blocker], changed[blocker] = high - 1, true
      else
        local mended = mend(blocker, blocked)
        if not mended then return mended, low, high end
      end
    end
    taken[ends + 1], taken[ends + 2], ends = blocker, blocked, ends + 2
    blocks[blocker], waits[blocked] = true, true
    return true
  end
  local function keep_levels()
    for id in pairs(changed) do store_level(id, level[id]) end
  end
  return try_edge, keep_levels
end
