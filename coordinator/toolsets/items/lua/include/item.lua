-- @include keys
-- @include clock
-- @include classes
-- A work item in Redis: one small hash (listpack form: short field names, nothing stored that is a
-- default) and one entry in a rank index per scope.
--   t title  s summary  k class  pr previous role  lb status label  p priority 0 high..2 low
--   c complexity  d depth  pa parent  g tags  y type  ca created  ma modified  ra role changed
--   rv requires verification  nb unsatisfied blockers  lv graph level  f fence
--   cb claimed by  cx claim expires  cc claimed at  co first claimed at  (all times in ms)
-- Texts over 64 bytes live in a second hash under the same letters, and so do always
--   x description  m metadata  o properties

local MAX_DEPTH = 3
local INLINE_BYTES = 64

local loaded = {}

-- The item, or nil. One table per item and script run, so that a cascade and a later element of the
-- same batch see each other's changes.
local function load(id)
  local it = loaded[id]
  if it then return it end
  local flat = redis.call('HGETALL', K_ITEM .. id)
  if #flat == 0 then return nil end
  it = {id = id, changed = {}}
  for n = 1, #flat, 2 do it[flat[n]] = flat[n + 1] end
  it.role = role_of(it.k)
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
  it[field] = value or nil
  it.changed[field] = true
end

local function save(it)
  local set, gone = {}, {}
  for field in pairs(it.changed) do
    if it[field] ~= nil then
      set[#set + 1] = field
      set[#set + 1] = it[field]
    else
      gone[#gone + 1] = field
    end
  end
  it.changed = {}
  if #set > 0 then redis.call('HSET', K_ITEM .. it.id, unpack(set)) end
  if #gone > 0 then redis.call('HDEL', K_ITEM .. it.id, unpack(gone)) end
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
  put(it, 'ma', whole(math.max(now, (it.ma or it.ca) + 1)))
end
