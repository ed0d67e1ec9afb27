-- @include merge
-- Finding the n-th item in an order of creation without reading those before it: by halving the range of
-- moments and counting. A place is {sets, span, newest}: where to look, and whether newest first.

local WALK = 64 -- items that are passed over one by one
local BUDGET = 50 -- counts in one run of the script, more only for the first step of the search

-- The runs of some spans, where a moment is given from it on.
local function runs_from(place, spans, moment)
  local runs = {}
  for _, span in ipairs(spans) do
    local first, last, from, to = unpack(span)
    if moment and place.newest then to = math.min(to, -moment) end
    if moment and not place.newest then from = math.max(from, moment) end
    for _, set in ipairs(place.sets) do add_runs(runs, set, {first, last, from, to}, place.newest) end
  end
  return runs
end

-- How many items stand in the runs before a moment.
local function count_before(place, runs, moment)
  local n, _, _, earliest, latest = 0, unpack(place.span)
  for _, run in ipairs(runs) do
    local from, to = run.base + earliest, run.base + moment - 1
    if place.newest then from, to = run.base - moment + 1, run.base + latest end
    n = n + redis.call('ZCOUNT', run.key, from, to)
  end
  return n
end

local function count_in_spans(place, spans)
  local _, _, earliest, latest = unpack(place.span)
  if not is_whole(place.span) then
    return count_before(place, runs_from(place, spans), place.newest and 1 - earliest or latest + 1)
  end
  local n = 0
  for _, set in ipairs(place.sets) do
    for _, span in ipairs(spans) do
      n = n + redis.call('ZCOUNT', set.key, set.base + span[1] * GROUP_SIZE, set.base + (span[2] + 1) * GROUP_SIZE - 1)
    end
  end
  return n
end

-- Between which moments the runs are: the first, and one past the last.
local function moment_range(place, runs)
  local low, high, _, _, earliest, latest = math.huge, -math.huge, unpack(place.span)
  for _, run in ipairs(runs) do
    local from, to, command = earliest, latest, 'ZRANGEBYSCORE'
    if not place.newest then from, to, command = latest, earliest, 'ZREVRANGEBYSCORE' end
    local flat = redis.call(command, run.key, run.base + from, run.base + to, 'WITHSCORES', 'LIMIT', 0, 1)
    local last = tonumber(flat[2]) - run.base
    low, high = math.min(low, run.moment), math.max(high, place.newest and -last or last)
  end
  return low, high + 1
end

-- A moment that at most `skip` of `size` items come before, close to where so many do, and how many come before it;
-- nil and what to go on with in the next run when the budget is spent.
-- The next moment to try is where it would be if items were spread evenly; every other time the middle.
local function seek_moment(place, runs, size, skip, left)
  local low, high, above, tries = unpack(left)
  local before, spent = low and count_before(place, runs, low) or math.huge, 0
  if before > skip then -- the first run, or items came in since
    low, high = moment_range(place, runs)
    before, above, tries, spent = 0, size, 0, #runs
  end
  while skip - before > WALK and high - low > 1 and spent <= BUDGET do
    local share = tries % 2 == 0 and (skip - before - WALK / 2) / (above - before) or 0.5
    local middle = low + math.min(math.max(math.floor((high - low) * share), 1), high - low - 1)
    tries = tries + 1
    local n = count_before(place, runs, middle)
    spent = spent + #runs
    if n <= skip then
      low, before = middle, n
    else
      high, above = middle, n
    end
  end
  if spent > BUDGET then return nil, {low, high, above, tries} end
  return low, before
end
