-- @include keys
-- @include clock
-- @include classes
-- A work item in Redis: one small hash (listpack form: short field names, nothing stored that is a
-- default) and one entry per scope in the ranked index.
--   w score (include/classes.lua)  t title  s summary  pr previous role  lb status label  d depth
--   pa parent  g tags  y type  q traits  ma modified  ra role changed  rv requires verification
--   nb unsatisfied blockers  lv graph level  (all times in ms)
--   h claim: fence, or fence, expires, claimed at, first claimed at and agent, a blank between
-- Texts over 64 bytes live in a second hash under the same letters, and so do always
--   x description  m metadata  o properties
-- In a script an item is a table of these fields, and: id, score (as a number), class, role, and of its
-- claim f fence, cx expires, cc claimed at, co first claimed at, cb claimed by.

local MAX_DEPTH = 3
local INLINE_BYTES = 64

local loaded = {}

-- The item, or nil. One table per item and script run, so that a cascade and a later element of the
-- same batch see each other's changes.
local function load(id)
  local it = loaded[id]
  if it then return it end
  redis.setresp(3) -- fields come as a table, not as a list to be made one
  it = redis.call('HGETALL', K_ITEM .. id).map
  redis.setresp(2)
  local score, claim = tonumber(it.w), it.h
  if not score then return nil end
  it.id, it.changed, it.score = id, {}, score
  it.class = math.floor(score / CLASS)
  it.role = math.floor(it.class / 3)
  if claim then
    it.f, it.cx, it.cc, it.co, it.cb = string.match(claim, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
    it.f = it.f or claim
  end
  loaded[id] = it
  return it
end

-- Why an id has no item: the caller marks prefixes that it could not resolve with '?' .. reason, so that
-- every element of a batch reaches the script and a replayed answer is the first one to the letter.
local function absent(id)
  return string.sub(id, 1, 1) == '?' and string.sub(id, 2) or 'not_found'
end

-- Sets a stored field (false or nil removes it); `save` writes all of them at once.
local function put(it, field, value)
  value = value or nil
  if it[field] == value then return end
  it[field] = value
  it.changed[#it.changed + 1] = field
end

local function save(it)
  local set, gone = {}, {}
  for _, field in ipairs(it.changed) do
    if it[field] ~= nil then
      set[#set + 1] = field
      set[#set + 1] = it[field]
    else
      gone[#gone + 1] = field
    end
  end
  it.changed = {}
  if set[1] then redis.call('HSET', K_ITEM .. it.id, unpack(set)) end
  if gone[1] then redis.call('HDEL', K_ITEM .. it.id, unpack(gone)) end
end

-- A text wherever its length puts it; '' and false remove it.
local function put_text(it, field, value)
  local long = value and #value > INLINE_BYTES
  put(it, field, value and value ~= '' and not long and value)
  if long then
    redis.call('HSET', K_TEXT .. it.id, field, value)
  elseif not it.fresh then
    redis.call('HDEL', K_TEXT .. it.id, field)
  end
end

local function text(it, field)
  return it[field] or redis.call('HGET', K_TEXT .. it.id, field)
end

local function title(it)
  return text(it, 't')
end

-- modifiedAt rises strictly, by a millisecond where the clock did not.
local function touch(it, now)
  put(it, 'ma', whole(math.max(now, (it.ma or created_of(it.score)) + 1)))
end
