-- Cycle check by levels: each item has a level (`lv`, 0 when absent) and every blocker's level is below
-- that of what it blocks. An edge that already points upwards needs no search, nor does one from an item that
-- nothing blocks or to one that blocks nothing. Otherwise both repairs run in lockstep, raising the levels of what
-- the edge blocks or lowering those of its blockers: the first to end is used, and one that reaches the edge's other
-- end has found a cycle. So building a graph in order costs O(1) per edge, and joining two graphs the size of the
-- smaller one. One call reads a bounded number of edges for it; if that is not enough, the caller first moves levels in
-- slices.
--
-- An `order` is the state of levels during one batch of new edges:
--   level, changed   by item: its level, and whether that is unsaved
--   taken, ends      accepted edges of the batch, blocker and blocked in turn, and their number
--   blocks, waits    items that block, or are blocked, in one of them
--   above, below     of the first `indexed` of them, by item: what it blocks, what blocks it
--   looked_at        how many edges were read for repairs
-- owns: none
local batch = require 'batch'
local neighbours = require 'neighbours'

local levels = {}

local EDGES_MAX = 300 -- edges that one call reads for repairs

-- A new order.
function levels.start()
  return {
    level = {}, changed = {}, taken = {}, ends = 0, blocks = {}, waits = {}, above = {}, below = {}, indexed = 0,
    looked_at = 0,
  }
end

local function level_of(run, order, id)
  local level, item = order.level[id], run.loaded[id]
  if not level then
    level = item and tonumber(item.lv or 0) or neighbours.load_level(run, id)
    order.level[id] = level
  end
  return level
end

local function set_level(order, id, level)
  order.level[id], order.changed[id] = level, true
end

-- Adds the newly accepted edges to `above` and `below`.
local function index_taken(order)
  local taken = order.taken
  for n = order.indexed + 1, order.ends, 2 do
    table.insert(batch.list_in(order.above, taken[n]), taken[n + 1])
    table.insert(batch.list_in(order.below, taken[n + 1]), taken[n])
  end
  order.indexed = order.ends
end

-- A repair in steps: from `start`, which goes to `level`, in direction `step` (+1 raises what is blocked, -1 lowers
-- blockers). Each call of the returned function visits one item, and returns 'more', 'done' or 'cycle' (`stop` was
-- reached), and the levels {id -> level} so far.
local function repair(run, order, start, level, step, stop)
  local moved, queue, head = {[start] = level}, {start}, 1
  local added = step > 0 and order.above or order.below -- unsaved edges of this batch
  local function look(list, bound)
    order.looked_at = order.looked_at + 1 + #(list or {})
    for _, other in ipairs(list or {}) do
      if other == stop then return 'cycle' end
      local present = moved[other] or level_of(run, order, other)
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
    local found = look(neighbours.of(run, id)[step], moved[id] + step) or look(added[id], moved[id] + step)
    return found or (head > #queue and 'done') or 'more', moved
  end
end

-- Moves levels so that the edge points upwards: true; false if it would close a cycle, nil if that is too much for this
-- call.
local function mend(run, order, blocker, blocked)
  index_taken(order)
  local up = repair(run, order, blocked, level_of(run, order, blocker) + 1, 1, blocker)
  local down = repair(run, order, blocker, level_of(run, order, blocked) - 1, -1, blocked)
  local state, moved
  repeat
    if order.looked_at > EDGES_MAX then return nil end
    state, moved = up()
    if state == 'more' then state, moved = down() end
    if state == 'cycle' then return false end
  until state == 'done'
  for id, level in pairs(moved) do set_level(order, id, level) end
  return true
end

-- Adds an edge to the order: true, the levels are repaired in memory; false if it would close a cycle; nil and the
-- levels of both ends if the repair is too large for this call.
function levels.try_edge(run, order, blocker, blocked)
  local low, high = level_of(run, order, blocker), level_of(run, order, blocked)
  if high <= low then
    if not order.blocks[blocked] and neighbours.edges_stored(run, blocked) == 0 then
      set_level(order, blocked, low + 1)
    elseif not order.waits[blocker] and neighbours.edges_stored(run, blocker) == 0 then
      set_level(order, blocker, high - 1)
    else
      local mended = mend(run, order, blocker, blocked)
      if not mended then return mended, low, high end
    end
  end
  order.taken[order.ends + 1], order.taken[order.ends + 2], order.ends = blocker, blocked, order.ends + 2
  order.blocks[blocker], order.waits[blocked] = true, true
  return true
end

-- Stores the changed levels.
function levels.store(run, order)
  for id in pairs(order.changed) do neighbours.store_level(run, id, order.level[id]) end
end

return levels
