-- @include keys
-- @include clock
-- @include classes
-- A work item in Redis: one small hash (listpack form: short field names, nothing stored that is a
-- default) and one entry per scope in the ranked index.
--   w score (include/classes.lua)  t title  s summary  pr previous role  lb status label  d depth
--   pa parent  g tags  y type  q traits  ma modified  ra role changed  rv requires verification
--   nb unsatisfied blockers  lv graph level  k put aside (include/beneath.lua)  (all times in ms)
--   h claim, packed: fence, and while there is a claim, live or lapsed, its times and its agent
--   lo how many claims in vain there were while it is held (include/holds.lua)
-- Texts over 64 bytes live in a second hash (include/texts.lua) under the same letters, and so do always
--   x description  m metadata  o properties
-- In a script an item is a table of these fields, w as a number, and: id, class, role, and of its claim
--   f fence  cx expires  cc claimed at  co first claimed at  cb claimed by

local MAX_DEPTH = 3
local CLAIM, AGENT_AT = '>I4I6I6I6', 23 -- fence, expires, claimed at, first claimed at; the agent follows

local loaded = {}

-- Sets what the stored score and claim (field h, or nil) say.
local function set_stored(it, score, claim)
  local class = math.floor(score / CLASS)
  it.w, it.class, it.role = tonumber(score), class, math.floor(class / 3)
  if claim and #claim > 4 then
    it.f, it.cx, it.cc, it.co = struct.unpack(CLAIM, claim)
    it.cb = string.sub(claim, AGENT_AT)
  elseif claim then
    it.f = struct.unpack('>I4', claim)
  end
end

-- The item, or nil. One table per item and script run, so that a cascade and a later element of the
-- same batch see each other's changes.
local function load(id)
  local known = loaded[id]
  if known and not known.partial then return known end
  redis.setresp(3) -- fields come as a table, not as a list to be made one
  local it = redis.call('HGETALL', K_ITEM .. id).map
  redis.setresp(2)
  if not it.w then return nil end
  if known then
    for field, value in pairs(it) do
      if known[field] == nil then known[field] = value end
    end
    known.partial = nil
    return known
  end
  it.id, loaded[id] = id, it
  set_stored(it, it.w, it.h)
  return it
end

-- The same for less, with the fields that claims and classes are about only: w h pa g y nb d k lo.
local function glance(id)
  if loaded[id] then return loaded[id] end
  local f = redis.call('HMGET', K_ITEM .. id, 'w', 'h', 'pa', 'g', 'y', 'nb', 'd', 'k', 'lo')
  if not f[1] then return nil end
  local it = {
    id = id, partial = true, w = 0, class = 0, role = 0, pa = f[3] or nil, g = f[4] or nil, y = f[5] or nil,
    nb = f[6] or nil, d = f[7] or nil, k = f[8] or nil, lo = f[9] or nil,
  }
  loaded[id] = it
  set_stored(it, f[1], f[2])
  return it
end

-- The role of an item that exists.
local function role_at(id)
  local it = loaded[id]
  return it and it.role or role_of(redis.call('HGET', K_ITEM .. id, 'w'))
end

-- Why an id has no item: the caller marks prefixes that it could not resolve with '?' .. reason, so that
-- every element of a batch reaches the script and a replayed answer is the first one to the letter.
local function absent(id)
  return string.sub(id, 1, 1) == '?' and string.sub(id, 2) or 'not_found'
end

-- Notes that a field has changed; `save` writes all of them at once.
local function mark(it, field)
  local changed = it.changed
  if changed then
    changed[#changed + 1] = field
  else
    it.changed = {field}
  end
end

-- Sets a stored field; false or nil removes it.
local function put(it, field, value)
  value = value or nil
  if it[field] ~= value then
    it[field] = value
    mark(it, field)
  end
end

local function save(it)
  if not it.changed then return end
  local set, gone = {}, nil
  for _, field in ipairs(it.changed) do
    local value = it[field]
    if value ~= nil then
      set[#set + 1] = field
      set[#set + 1] = value
    else
      gone = gone or {}
      gone[#gone + 1] = field
    end
  end
  it.changed = nil
  if set[1] then redis.call('HSET', K_ITEM .. it.id, unpack(set)) end
  if gone then redis.call('HDEL', K_ITEM .. it.id, unpack(gone)) end
end

-- modifiedAt rises strictly, by a millisecond where the clock did not.
local function touch(it, now)
  put(it, 'ma', whole(math.max(now, (it.ma or created_of(it.w)) + 1)))
end
