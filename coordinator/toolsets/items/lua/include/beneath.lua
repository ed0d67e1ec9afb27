-- @include item
-- What is ready below an item: so a search finds the best item that is not below a held one without looking at
-- those that are (include/tree.lua).
--   K_BENEATH  parent, '' above the roots: its children with something ready below them, at any depth. One member
--              per child, role and priority: its id and the character of a band, which is how scores of these
--              begin. Its score is a bound: nothing of the band that is ready below the child stands before it.
--   K_FORM     '+' where all that is ready is entered, as in every project that began with this index; else up to
--              which score it is
-- A bound is lowered with what becomes ready, by every script at once; that there is nothing any more is found, and
-- mended, by the next search that looks. A search also puts a child aside that a claim holds: its bound moves to
-- the held class, and `k` on the item says so until `bring_back`, when the claim ends. Meanwhile it may be missing.

local ALL = '+'
local BANDS = {0, 1, 2, 12, 13, 14, 24, 25, 26, 48, 49, 50} -- of the ready classes, by class and priority
local surfaced = {} -- by member: the lowest bound that this run has seen to

local function member_of(id, band) return id .. string.char(48 + band) end

-- Something of this score is ready below an item of this depth: the bounds of it and of all above it are to say so.
local function announce(id, depth, score)
  local band = math.floor(score / PRIORITY)
  local member = member_of(id, band)
  while (surfaced[member] or math.huge) > score do
    surfaced[member] = score
    local above = ''
    if depth > 0 then above = (loaded[id] or {pa = redis.call('HGET', K_ITEM .. id, 'pa')}).pa or '' end
    -- Where the bound was as low before, so are those above.
    if redis.call('ZADD', K_BENEATH .. above, 'LT', 'CH', score, member) == 0 or depth == 0 then return end
    id, depth, member = above, depth - 1, member_of(above, band)
  end
end

local function members_of(id)
  local list = {}
  for n, band in ipairs(BANDS) do list[n] = member_of(id, band) end
  return list
end

-- Takes an item's bounds out of those of its parent.
local function take_out(it, parent)
  local members = members_of(it.id)
  for _, member in ipairs(members) do surfaced[member] = nil end
  redis.call('ZREM', K_BENEATH .. (parent or ''), unpack(members))
end

-- Takes the bounds of an item along that has moved away from a parent. One that is put aside gets them later.
local function carry(it, from)
  local scores = redis.call('ZMSCORE', K_BENEATH .. (from or ''), unpack(members_of(it.id)))
  take_out(it, from)
  for _, score in ipairs(scores) do
    if score and math.floor(score / CLASS) % 3 == READY then announce(it.id, tonumber(it.d), tonumber(score)) end
  end
end

local function first_score(key, low, high)
  return tonumber(redis.call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- Gives an item that was put aside its bounds again.
local function bring_back(it)
  it.k = nil
  redis.call('HDEL', K_ITEM .. it.id, 'k')
  take_out(it, it.pa)
  for _, band in ipairs(BANDS) do
    local low, high = band * PRIORITY, (band + 1) * PRIORITY - 1
    local child = first_score(K_RANKED .. 'p' .. it.id, low, high)
    local under = first_score(K_BENEATH .. it.id, low, high)
    if child or under then announce(it.id, tonumber(it.d), math.min(child or under, under or child)) end
  end
end

-- Whether all that is ready is entered; where an older version left it, enters some more.
local function entered()
  local form = redis.call('GET', K_FORM)
  if form == ALL then return true end
  local from, size = tonumber(form or 0), 50
  local class, page = math.ceil(math.floor(from / CLASS) / 3) * 3, {}
  if class == TERMINAL * 3 then class = BLOCKED * 3 end
  repeat -- until there is more than one score, to go on from the last
    size = 2 * size
    local low, high = math.max(from, class * CLASS), (class + 1) * CLASS - 1
    page = redis.call('ZRANGEBYSCORE', K_RANKED .. '*', low, high, 'WITHSCORES', 'LIMIT', 0, size)
  until #page < 2 * size or page[2] ~= page[#page]
  for n = 1, #page, 2 do
    local parent, depth = unpack(redis.call('HMGET', K_ITEM .. page[n], 'pa', 'd'))
    if parent then announce(parent, depth - 1, tonumber(page[n + 1])) end
  end
  form = #page == 2 * size and page[#page] or class == BLOCKED * 3 and ALL or whole((class + 1) * CLASS)
  redis.call('SET', K_FORM, form)
  return form == ALL
end
