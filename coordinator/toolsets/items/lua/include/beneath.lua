-- @include abandoned
-- An index of what is ready below each item. With it a search finds the best item that is not below a held one,
-- without looking at the items that are (include/tree.lua).
--   K_BENEATH  per parent ('' for the roots): its children that have ready items below them, at any depth. One member
--              per child and band, where a band is a role and a priority: the child's id and a character for the band.
--              The score is a lower bound: no ready item of the band below the child has a lower score.
--   K_FORM     '+' if all ready items are entered, as in every project that began with this index; else the score up
--              to which they are
-- The script that makes an item ready lowers the bounds above it at once. Bounds that are too low are not raised by the
-- script that takes the item away, but by the next search that finds nothing there. A search also puts aside a child
-- that is held by a claim: it moves the bound to the held class and notes that in `k` of the item, until the claim ends
-- (`restore_bounds`). The bound may be missing meanwhile.

local COMPLETE = '+'
-- Of the ready classes, by class and priority.
local READY_BANDS = {
  0, 1, 2, 16, 17, 18, 24, 25, 26, 32, 33, 34, 40, 41, 42, 64, 65, 66,
}
local known_bounds = {} -- by member: the lowest bound that this run has stored or found

local function bound_member(id, band)
  return id .. string.char(48 + band)
end

local function band_of(member)
  return string.byte(member, 33) - 48
end

-- An item of this score is ready below an item of this depth: lowers the bounds of that item and of all above it.
local function lower_bounds(id, depth, score)
  local band = math.floor(score / PRIORITY_SIZE)
  local member = bound_member(id, band)
  while (known_bounds[member] or math.huge) > score do
    known_bounds[member] = score
    local above = ''
    if depth > 0 then above = (loaded[id] or {pa = redis.call('HGET', K_ITEM .. id, 'pa')}).pa or '' end
    -- Where the bound was as low before, so are those above.
    if redis.call('ZADD', K_BENEATH .. above, 'LT', 'CH', score, member) == 0 or depth == 0 then return end
    id, depth, member = above, depth - 1, bound_member(above, band)
  end
end

-- All members that an item may have.
local function bound_members(id)
  local list = {}
  for n, band in ipairs(READY_BANDS) do list[n] = bound_member(id, band) end
  return list
end

-- Removes an item's bounds from its parent's set.
local function remove_bounds(item, parent)
  local members = bound_members(item.id)
  for _, member in ipairs(members) do known_bounds[member] = nil end
  redis.call('ZREM', K_BENEATH .. (parent or ''), unpack(members))
end

-- Moves the bounds of an item that has moved away from a parent. An item that is put aside gets them later.
local function move_bounds(item, from)
  local scores = redis.call('ZMSCORE', K_BENEATH .. (from or ''), unpack(bound_members(item.id)))
  remove_bounds(item, from)
  for _, score in ipairs(scores) do
    if score and is_ready_class(math.floor(score / CLASS_SIZE)) then lower_bounds(item.id, tonumber(item.d), tonumber(score)) end
  end
end

-- The first score of a range in a sorted set, or nil.
local function first_score(key, low, high)
  return tonumber(redis.call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- Gives the bounds back to an item that was put aside.
local function restore_bounds(item)
  item.k = nil
  redis.call('HDEL', K_ITEM .. item.id, 'k')
  remove_bounds(item, item.pa)
  for _, band in ipairs(READY_BANDS) do
    local low, high = band * PRIORITY_SIZE, (band + 1) * PRIORITY_SIZE - 1
    local child = first_score(K_RANKED .. 'p' .. item.id, low, high)
    local under = first_score(K_BENEATH .. item.id, low, high)
    if child or under then lower_bounds(item.id, tonumber(item.d), math.min(child or under, under or child)) end
  end
end

-- Whether all ready items are entered; if not (a project of an older version), enters some more.
local function bounds_complete()
  local form = redis.call('GET', K_FORM)
  if form == COMPLETE then return true end
  local from, size = tonumber(form or 0), 50
  local class, page = nil, {}
  for n = #READY_CLASSES, 1, -1 do
    if READY_CLASSES[n] >= math.floor(from / CLASS_SIZE) then class = READY_CLASSES[n] end
  end
  repeat -- until there is more than one score, to go on from the last
    size = 2 * size
    local low, high = math.max(from, class * CLASS_SIZE), (class + 1) * CLASS_SIZE - 1
    page = redis.call('ZRANGEBYSCORE', K_RANKED .. '*', low, high, 'WITHSCORES', 'LIMIT', 0, size)
  until #page < 2 * size or page[2] ~= page[#page]
  for n = 1, #page, 2 do
    local parent, depth = unpack(redis.call('HMGET', K_ITEM .. page[n], 'pa', 'd'))
    if parent then lower_bounds(parent, depth - 1, tonumber(page[n + 1])) end
  end
  form = #page == 2 * size and page[#page] or class == BLOCKED * STATES and COMPLETE or whole((class + 1) * CLASS_SIZE)
  redis.call('SET', K_FORM, form)
  return form == COMPLETE
end
