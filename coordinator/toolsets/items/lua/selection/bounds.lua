-- An index of the ready items below each item, and of those that only open children keep from being ready ("ready" here
-- means both). With it a search finds the best item that is not below a held one, without reading the items that are
-- (trees.lua).
--   beneath  per parent ('' for the roots): its children that have ready items below them, at any depth. One member
--              per child and band, where a band is a role and a priority: the child's id and a character for the band.
--              The score is a lower bound: no ready item of the band below the child has a lower score.
-- The operation that makes an item ready lowers the bounds above it at once. Stale bounds that are too low are
-- not raised by the operation that removes the item, but by the next search that finds nothing there. A search also
-- puts aside a child that is held by a claim: it moves the bound to the held class and records that in `k` of the item,
-- until the claim ends (`bounds.restore`). The bound may be missing meanwhile.
-- In a call: by member of beneath, the lowest bound that it has stored or read.
-- owns: item.k beneath
local classes = require 'classes'

local PRIORITY_SIZE = classes.PRIORITY_SIZE

local bounds = {}

-- Bands of the offered classes, by class and priority; and by band, its place in that list.
local READY_BANDS, PLACES = {}, {}
for class = 0, classes.BLOCKED * classes.STATES do
  for priority = 0, classes.OFFERED[class] and class % classes.STATES ~= classes.APART and 2 or -1 do
    READY_BANDS[#READY_BANDS + 1] = class * 4 + priority
    PLACES[class * 4 + priority] = #READY_BANDS
  end
end

local function bound_member(id, band)
  return id .. string.char(47 + PLACES[band])
end

-- The band of a member of beneath.
function bounds.band_of(member)
  return READY_BANDS[string.byte(member, 33) - 47]
end

-- Lowers the bounds of an item of this depth and of its ancestors: an item of this score is ready below it.
function bounds.lower(run, id, depth, score)
  local band = math.floor(score / PRIORITY_SIZE)
  local known, member = run[bounds] or {}, bound_member(id, band)
  run[bounds] = known
  while (known[member] or math.huge) > score do
    known[member] = score
    local above = ''
    if depth > 0 then above = (run.loaded[id] or {pa = redis.call('HGET', run.keys.item .. id, 'pa')}).pa or '' end
    -- If the bound was as low before, so are those above.
    if redis.call('ZADD', run.keys.beneath .. above, 'LT', 'CH', score, member) == 0 or depth == 0 then return end
    id, depth, member = above, depth - 1, bound_member(above, band)
  end
end

-- Corrects bounds: a list of {above = the parent, member, score, nil: there is nothing below; aside = id of a child to
-- be put aside, nil: it is not}.
function bounds.mend(run, mends)
  for _, mend in ipairs(mends) do
    local key, id = run.keys.beneath .. mend.above, mend.aside
    if run[bounds] then run[bounds][mend.member] = nil end
    if id then
      redis.call('HSET', run.keys.item .. id, 'k', '1')
      if run.loaded[id] then run.loaded[id].k = '1' end
    end
    if mend.score then
      redis.call('ZADD', key, mend.score, mend.member)
    else
      redis.call('ZREM', key, mend.member)
    end
  end
end

-- All possible members of an item.
local function bound_members(id)
  local list = {}
  for n, band in ipairs(READY_BANDS) do list[n] = bound_member(id, band) end
  return list
end

-- Removes an item's bounds from its parent's set.
function bounds.remove(run, item, parent)
  local members = bound_members(item.id)
  for _, member in ipairs(run[bounds] and members or {}) do run[bounds][member] = nil end
  redis.call('ZREM', run.keys.beneath .. (parent or ''), unpack(members))
end

-- Moves the bounds of an item to its new parent. An item that is put aside gets them later.
function bounds.move(run, item, from)
  local scores = redis.call('ZMSCORE', run.keys.beneath .. (from or ''), unpack(bound_members(item.id)))
  bounds.remove(run, item, from)
  for _, score in ipairs(scores) do
    local is_bound = score and PLACES[math.floor(score / PRIORITY_SIZE)] -- not put aside
    if is_bound then bounds.lower(run, item.id, item.depth, tonumber(score)) end
  end
end

-- The first score of a range in a sorted set, or nil.
local function first_score(key, low, high)
  return tonumber(redis.call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- Restores the bounds of an item that was put aside.
function bounds.restore(run, item)
  item.k = nil
  redis.call('HDEL', run.keys.item .. item.id, 'k')
  bounds.remove(run, item, item.pa)
  for _, band in ipairs(READY_BANDS) do
    local low, high = band * PRIORITY_SIZE, (band + 1) * PRIORITY_SIZE - 1
    local child = first_score(run.keys.ranked .. 'p' .. item.id, low, high)
    local under = first_score(run.keys.beneath .. item.id, low, high)
    if child or under then bounds.lower(run, item.id, item.depth, math.min(child or under, under or child)) end
  end
end

return bounds
