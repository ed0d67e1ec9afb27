-- Walks several sets of the ranked index (ranges.lua) as one, in order of rank and id, over several calls. The
-- position of a walk is a rank and an id (`score`, `last`). So even if items move between the sets meanwhile, none is
-- missed or visited twice, unless its rank changes.
-- owns: none
local classes = require 'classes'
local ranges = require 'ranges'

local CLASS_SIZE, GROUP_SIZE = classes.CLASS_SIZE, classes.GROUP_SIZE

local walks = {}

local SET_READ_MAX = 128 -- items read from a set at a time

-- Positions every set at its first item from walk.score on.
local function rewind(walk)
  for _, set in ipairs(walk.sets) do
    set.at, set.flat = 1, {}
    set.position = redis.call('ZCOUNT', set.key, '-inf', set.base + walk.score - 1)
    set.full = set.position < set.stop
    set.read = math.max(4, math.floor(walk.read * set.size / walk.total))
  end
end

-- A walk over `sets` with `total` members that continues after (score, last id) within the span, for about
-- `wanted` items. Of a set, `position` is how far it was read and `stop` where its class ends, `flat` what was
-- read last and `at` how far that was looked at, `full` whether there is more.
function walks.start(sets, total, span, score, last, wanted)
  local walk = {sets = sets, total = total, span = span, score = score, last = last}
  walk.read = math.min(wanted, SET_READ_MAX)
  for _, set in ipairs(sets) do set.stop = redis.call('ZCOUNT', set.key, '-inf', set.base + CLASS_SIZE - 1) end
  rewind(walk)
  return walk
end

-- Reads on in a set; of what is read at a time, `most` at most.
local function refill(set, most)
  local next_position = math.min(set.position + set.read, set.stop)
  set.flat = redis.call('ZRANGE', set.key, set.position, next_position - 1, 'WITHSCORES')
  set.at, set.position, set.full = 1, next_position, next_position < set.stop
  set.read = math.min(2 * set.read, most)
end

-- Moves to the next group that has items; false when there is none.
local function next_group(walk)
  local _, last_group, from = unpack(walk.span)
  local next_score = (math.floor(walk.score / GROUP_SIZE) + 1) * GROUP_SIZE + from
  local nearest
  for _, set in ipairs(walk.sets) do
    local low, high = set.base + next_score, set.base + CLASS_SIZE - 1
    local score = tonumber(redis.call('ZRANGEBYSCORE', set.key, low, high, 'WITHSCORES', 'LIMIT', 0, 1)[2])
    if score then nearest = math.min(nearest or CLASS_SIZE, score - set.base) end
  end
  local group = nearest and math.floor(nearest / GROUP_SIZE) or last_group + 1
  if group > last_group then return false end
  walk.score, walk.last = group * GROUP_SIZE + from, ''
  rewind(walk)
  return true
end

-- Continues a walk: calls visit(id, rank) for a bounded number of items, up to the nearest end of the pages read.
-- False at the end of the walk.
function walks.step(walk, visit)
  local _, last_group, _, to = unpack(walk.span)
  local whole_groups = ranges.is_whole(walk.span)
  local range_end = (last_group + 1) * GROUP_SIZE - 1
  if not whole_groups then range_end = math.floor(walk.score / GROUP_SIZE) * GROUP_SIZE + to end
  local end_score, end_id = range_end, 'g' -- after every id
  for _, set in ipairs(walk.sets) do
    if set.at > #set.flat and set.full then refill(set, walk.read) end
    if set.full then
      local id, at = set.flat[#set.flat - 1], set.flat[#set.flat] - set.base
      if at < end_score or (at == end_score and id < end_id) then end_score, end_id = at, id end
    end
  end
  for _, set in ipairs(walk.sets) do
    while set.at < #set.flat do
      local id, at = set.flat[set.at], set.flat[set.at + 1] - set.base
      if at > end_score or (at == end_score and id > end_id) then break end
      if at > walk.score or (at == walk.score and id > walk.last) then visit(id, at) end
      set.at = set.at + 2
    end
  end
  -- Many of one rank: the page read may end before the walk's position.
  if end_score > walk.score or end_id > walk.last then walk.score, walk.last = end_score, end_id end
  if end_id ~= 'g' then return true end
  return not whole_groups and next_group(walk)
end

return walks
