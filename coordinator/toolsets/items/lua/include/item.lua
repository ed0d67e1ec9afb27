-- @include keys
-- @include clock
-- @include classes
-- @include claim_record
-- The stored layout of a work item: one small hash (listpack form: short field names, nothing stored that is a
-- default; all times in ms) and one entry per scope in the ranked index. Fields of the hash:
--   w score (include/classes.lua)  t title  s summary  pr previous role  lb status label  d depth
--   pa parent  g tags  y type  q traits  ma modified  ra role changed  rv requires verification
--   tl entry of its last transition in K_TRANSITIONS, which has the entry of the one before
--   nb unsatisfied blockers  lv graph level  k put aside (include/beneath.lua)
--   h record of its claim (include/claim_record.lua)
--   u nobody has claimed it since it went to its role by a cascade, or was reopened (only where there was a claim before)
--   tk fence of the claim that took it over while it was abandoned, until `start` (advance_item.lua)
--   lo how many claims on it failed while the present claim is held (include/holds.lua)
-- Texts over 64 bytes live in a second hash (include/texts.lua) under the same letters, and so do always
--   x description  m metadata  o properties
-- In scripts an `item` is a table. Its fields of one or two letters are the stored ones. Whole words are: its id; what
-- w and h contain (score, class, role; fence and, with a claim, expires, claimed_at, first_claimed_at, holder); and
-- the state of this run (partial, changed).

local MAX_DEPTH = 3
local loaded = {} -- by id: one table per item and run, so that changes are seen everywhere in the run

-- Sets the fields that follow from the stored score and the record of a claim (nil for none).
local function unpack_stored(item, score, claim)
  local class = math.floor(score / CLASS_SIZE)
  item.score, item.class, item.role = tonumber(score), class, math.floor(class / STATES)
  if claim then unpack_claim(item, claim) end
end

-- The item with all fields of its hash, or nil.
local function load_item(id)
  local known = loaded[id]
  if known and not known.partial then return known end
  redis.setresp(3) -- fields come as a table, not as a list to be made one
  local item = redis.call('HGETALL', K_ITEM .. id).map
  redis.setresp(2)
  if not item.w then return nil end
  if known then
    for field, value in pairs(item) do
      if known[field] == nil then known[field] = value end
    end
    known.partial = nil
    return known
  end
  item.id, loaded[id] = id, item
  unpack_stored(item, item.w, item.h)
  return item
end

-- The same at less cost, `partial`: only with the fields that claims, classes and scopes need.
local function load_item_partly(id)
  if loaded[id] then return loaded[id] end
  local values = redis.call('HMGET', K_ITEM .. id, 'w', 'h', 'pa', 'g', 'y', 'nb', 'd', 'k', 'lo', 'ra', 'u')
  if not values[1] then return nil end
  local item = {
    id = id, partial = true, score = 0, class = 0, role = 0,
    pa = values[3] or nil, g = values[4] or nil, y = values[5] or nil, nb = values[6] or nil,
    d = values[7] or nil, k = values[8] or nil, lo = values[9] or nil,
    ra = values[10] or nil, u = values[11] or nil,
  }
  loaded[id] = item
  unpack_stored(item, values[1], values[2])
  return item
end

-- The role of an item that exists.
local function load_role(id)
  local item = loaded[id]
  return item and item.role or role_of(redis.call('HGET', K_ITEM .. id, 'w'))
end

-- Why an id has no item. The caller replaces a prefix that it could not resolve by '?' .. reason, so that every element
-- of a batch reaches the script, and a repeated call gets exactly the first answer.
local function absence_reason(id)
  return string.sub(id, 1, 1) == '?' and string.sub(id, 2) or 'not_found'
end

-- Marks a field (a stored one, or `score`) to be written by `save_item`.
local function mark_changed(item, field)
  local changed = item.changed or {}
  changed[#changed + 1] = field
  item.changed = changed
end

-- Sets such a field; false or nil removes it.
local function set_field(item, field, value)
  value = value or nil
  if item[field] ~= value then
    item[field] = value
    mark_changed(item, field)
  end
end

-- Writes what has changed.
local function save_item(item)
  if not item.changed then return end
  local set, gone = {}, nil
  for _, field in ipairs(item.changed) do
    local value = item[field]
    if value ~= nil then
      set[#set + 1], set[#set + 2] = field == 'score' and 'w' or field, value
    else
      gone = gone or {}
      gone[#gone + 1] = field
    end
  end
  item.changed = nil
  if set[1] then redis.call('HSET', K_ITEM .. item.id, unpack(set)) end
  if gone then redis.call('HDEL', K_ITEM .. item.id, unpack(gone)) end
end

-- modifiedAt rises strictly, by a millisecond where the clock did not.
local function set_modified(item, now)
  set_field(item, 'ma', whole(math.max(now, (item.ma or created_of(item.score)) + 1)))
end
