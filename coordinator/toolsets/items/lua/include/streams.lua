-- Items read one after the other, each with its position: from one sorted set, or from several in one order. `command`
-- is ZRANGEBYSCORE, or ZREVRANGEBYSCORE with the ends exchanged.

local PAGE_MAX = 32 -- candidates read at a time

-- The members of a range of scores, one at each call: (score, id). The first page has as many as are wanted:
-- what is wanted is likely to be at the beginning.
local function read_members(command, key, from, to, wanted)
  local page, at, seen, size, left = {}, 1, 0, math.min(wanted, PAGE_MAX), true
  return function()
    if at > #page then
      if not left then return nil end
      page, at = redis.call(command, key, from, to, 'WITHSCORES', 'LIMIT', seen, size), 1
      left = #page == 2 * size
      seen, size = seen + size, math.min(4 * size, PAGE_MAX)
    end
    at = at + 2
    return tonumber(page[at - 1]), page[at - 2]
  end
end

-- Ids break ties: in their order, or against it where ranges are read from their ends.
local function comes_before(position, id, other_position, other_id, down)
  if position ~= other_position then return position < other_position end
  if down then return id > other_id end
  return id < other_id
end

-- The first of all runs {position, id} at each call: (position, id). step(run) then moves that run on.
local function merge_streams(runs, step, down)
  return function()
    local best
    for _, run in ipairs(runs) do
      if run.id and (not best or comes_before(run.position, run.id, best.position, best.id, down)) then best = run end
    end
    if not best then return nil end
    local position, id = best.position, best.id
    step(best)
    return position, id
  end
end
