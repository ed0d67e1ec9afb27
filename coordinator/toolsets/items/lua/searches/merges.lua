-- Merges items of many groups in one order of creation. A moment is the ms since RANK_EPOCH for oldest first, and their
-- negative for newest first, so it always rises. A lane is a position in one group of one set (ranges.lua):
-- {key, base, id, moment, bound} with the item there, and the scores at which the group begins (base) and ends (bound).
-- Lanes are merged by a heap, so an item costs O(log lanes).
-- owns: none
local classes = require 'classes'

local CLASS_LETTERS, CLASS_SIZE, GROUP_SIZE = classes.CLASS_LETTERS, classes.CLASS_SIZE, classes.GROUP_SIZE

local merges = {}

local LANE_READ_MAX = 16 -- items read from a lane at a time
local SORTED_MAX = 128 -- items of a scope that are read and sorted directly: cheaper than merging their groups
local EVERY_CLASS = {0, #CLASS_LETTERS * CLASS_SIZE / GROUP_SIZE - 1, 0, GROUP_SIZE - 1} -- as a span, from score 0 on

-- Appends a lane for each group of a set that has items within the span, at the first of them.
function merges.add_lanes(lanes, set, span, newest)
  local key, start = set.key, set.base / GROUP_SIZE
  local first, last, near, far = start + span[1], start + span[2], span[3], span[4]
  local step, command = 1, 'ZRANGEBYSCORE'
  if newest then
    first, last, near, far = last, first, far, near
    step, command = -1, 'ZREVRANGEBYSCORE'
  end
  while (last - first) * step >= 0 do
    local from, to = first * GROUP_SIZE + near, last * GROUP_SIZE + far
    local flat = redis.call(command, key, from, to, 'WITHSCORES', 'LIMIT', 0, 1)
    if not flat[1] then return end
    local score = tonumber(flat[2])
    local group = math.floor(score / GROUP_SIZE)
    local age = score - group * GROUP_SIZE
    if (age - near) * step < 0 then
      first = group -- its first item is outside the span; others may not be
    else
      if (far - age) * step >= 0 then
        local bound = group * GROUP_SIZE + far
        lanes[#lanes + 1] = {key = key, base = group * GROUP_SIZE, id = flat[1], moment = age * step, bound = bound}
      end
      first = group + step
    end
  end
end

-- Moves a lane to its next item; false at its end.
local function advance_lane(lane, newest)
  local flat = lane.flat
  if not flat or lane.at > #flat then
    local command = newest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
    lane.start = lane.start or lane.base + math.abs(lane.moment)
    lane.taken = (lane.taken or 1) + (flat and #flat / 2 or 0)
    lane.read = math.min(2 * (lane.read or 1), LANE_READ_MAX) -- most of many lanes yield one item or none
    flat = redis.call(command, lane.key, lane.start, lane.bound, 'WITHSCORES', 'LIMIT', lane.taken, lane.read)
    if #flat == 0 then return false end
    lane.flat, lane.at = flat, 1
  end
  local age = tonumber(flat[lane.at + 1]) - lane.base
  lane.id, lane.moment = flat[lane.at], newest and -age or age
  lane.at = lane.at + 2
  return true
end

-- Restores the heap below position n: the earliest lane is the first.
local function sift_down(heap, n)
  while true do
    local child = 2 * n
    if child < #heap and heap[child + 1].moment < heap[child].moment then child = child + 1 end
    if child > #heap or heap[n].moment <= heap[child].moment then return end
    heap[n], heap[child] = heap[child], heap[n]
    n = child
  end
end

-- Appends to `ids` until it holds `wanted`, after skipping `skip` items. Items of one moment come in order
-- of their ids. Uses the lanes up.
function merges.merge_lanes(lanes, newest, skip, wanted, ids)
  for n = math.floor(#lanes / 2), 1, -1 do sift_down(lanes, n) end
  while lanes[1] and #ids < wanted do
    local moment, tie = lanes[1].moment, {}
    while lanes[1] and lanes[1].moment == moment do
      tie[#tie + 1] = lanes[1].id
      if not advance_lane(lanes[1], newest) then
        lanes[1] = lanes[#lanes]
        lanes[#lanes] = nil
      end
      if lanes[2] then sift_down(lanes, 1) end
    end
    if #tie > 1 then table.sort(tie) end
    for _, id in ipairs(tie) do
      if skip > 0 then
        skip = skip - 1
      elseif #ids < wanted then
        ids[#ids + 1] = id
      end
    end
  end
end

-- Newest first, then by id; of entries {id, ms}.
local function is_newer(one, other)
  if one[2] ~= other[2] then return one[2] > other[2] end
  return one[1] < other[1]
end

-- The ids of the newest items of a scope, at most `wanted`.
function merges.newest_of(run, scope, wanted)
  local key, ids = run.keys.ranked .. scope, {}
  if redis.call('ZCARD', key) > SORTED_MAX then
    local lanes = {}
    merges.add_lanes(lanes, {key = key, base = 0}, EVERY_CLASS, true)
    merges.merge_lanes(lanes, true, 0, wanted, ids)
    return ids
  end
  local flat, list = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for n = 1, #flat, 2 do list[#list + 1] = {flat[n], flat[n + 1] % GROUP_SIZE} end
  table.sort(list, is_newer)
  for n = 1, math.min(#list, wanted) do ids[n] = list[n][1] end
  return ids
end

return merges
