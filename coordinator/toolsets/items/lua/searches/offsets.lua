-- Finds the n-th item in order of creation without reading those before it, by bisecting the range of moments and
-- counting. An area is {sets, span, newest}: where to search, and whether newest first. Sets and spans are those of
-- ranges.lua, lanes and moments those of merges.lua.
-- owns: none
local classes = require 'classes'
local merges = require 'merges'
local ranges = require 'ranges'

local GROUP_SIZE = classes.GROUP_SIZE

local offsets = {}

local SKIPS_MAX = 64 -- items skipped one by one
local COUNTS_MAX = 50 -- counts per call, more only for the first step of the search

-- The lanes of some spans, from a moment on if given.
function offsets.lanes_from(area, spans, moment)
  local lanes = {}
  for _, span in ipairs(spans) do
    local first, last, from, to = unpack(span)
    if moment and area.newest then to = math.min(to, -moment) end
    if moment and not area.newest then from = math.max(from, moment) end
    for _, set in ipairs(area.sets) do merges.add_lanes(lanes, set, {first, last, from, to}, area.newest) end
  end
  return lanes
end

-- How many items of the lanes are before a moment.
local function count_before(area, lanes, moment)
  local n, _, _, earliest, latest = 0, unpack(area.span)
  for _, lane in ipairs(lanes) do
    local from, to = lane.base + earliest, lane.base + moment - 1
    if area.newest then from, to = lane.base - moment + 1, lane.base + latest end
    n = n + redis.call('ZCOUNT', lane.key, from, to)
  end
  return n
end

-- How many items of some spans lie within the area's times.
function offsets.count_in_spans(area, spans)
  local _, _, earliest, latest = unpack(area.span)
  if not ranges.is_whole(area.span) then
    return count_before(area, offsets.lanes_from(area, spans), area.newest and 1 - earliest or latest + 1)
  end
  local n = 0
  for _, set in ipairs(area.sets) do
    for _, span in ipairs(spans) do
      n = n + redis.call('ZCOUNT', set.key, set.base + span[1] * GROUP_SIZE, set.base + (span[2] + 1) * GROUP_SIZE - 1)
    end
  end
  return n
end

-- The range of moments of the lanes: the first, and one past the last.
local function moment_range(area, lanes)
  local low, high, _, _, earliest, latest = math.huge, -math.huge, unpack(area.span)
  for _, lane in ipairs(lanes) do
    local from, to, command = earliest, latest, 'ZRANGEBYSCORE'
    if not area.newest then from, to, command = latest, earliest, 'ZREVRANGEBYSCORE' end
    local flat = redis.call(command, lane.key, lane.base + from, lane.base + to, 'WITHSCORES', 'LIMIT', 0, 1)
    local last = tonumber(flat[2]) - lane.base
    low, high = math.min(low, lane.moment), math.max(high, area.newest and -last or last)
  end
  return low, high + 1
end

-- Finds a moment before which almost `skip` of the `size` items come, never more. Returns the moment and how many items
-- come before it; when the budget is spent, nil and the state from which the next call continues (`left`; {} in the
-- first call). Alternates between interpolation and bisection.
function offsets.seek_moment(area, lanes, size, skip, left)
  local low, high, above, tries = unpack(left)
  local before, spent = low and count_before(area, lanes, low) or math.huge, 0
  if before > skip then -- the first call, or items were added since
    low, high = moment_range(area, lanes)
    before, above, tries, spent = 0, size, 0, #lanes
  end
  while skip - before > SKIPS_MAX and high - low > 1 and spent <= COUNTS_MAX do
    local share = tries % 2 == 0 and (skip - before - SKIPS_MAX / 2) / (above - before) or 0.5
    local middle = low + math.min(math.max(math.floor((high - low) * share), 1), high - low - 1)
    tries = tries + 1
    local n = count_before(area, lanes, middle)
    spent = spent + #lanes
    if n <= skip then
      low, before = middle, n
    else
      high, above = middle, n
    end
  end
  if spent > COUNTS_MAX then return nil, {low, high, above, tries} end
  return low, before
end

offsets.SKIPS_MAX = SKIPS_MAX

return offsets
