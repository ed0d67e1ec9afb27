-- The stored layout of a work item: one small hash (listpack encoding: short field names, defaults are
-- not stored; all times in ms) and one entry per scope in the ranked index. Fields of the hash:
--   w score (modules/classes.lua)  t title  s summary  pr previous role  lb status label  d depth
--   pa parent  g tags  y type  q traits  rv requires verification
--   c record of its dates, and of its last transition (modules/dates.lua)
--   rq capabilities that it requires (modules/requirements.lua)
--   nb unsatisfied blockers  lv graph level  k put aside (modules/bounds.lua)
--   h record of its claim (modules/claim_record.lua)
--   u not claimed since it came to its role (only if it was claimed before): 1 by a cascade or a reopening, 2 by the
--     resumption of a quarantined item
--   tk fence of the claim that took it over while it was abandoned, until `start` (advance_item.lua)
--   lo how many claims on it failed during the current claim (modules/holds.lua)
--   an, am, rb attempts, and what the item says about them (modules/attempts.lua)
--   nt held back until (modules/held_back.lua)
-- Texts over INLINE_BYTES are in a second hash under the same letters, so that the first stays small; always there:
--   x description  m metadata  o properties  a last attempts (modules/attempts.lua)
-- A call reads or writes a field for about the price of ten steps of Lua, so what changes together is one of them.
-- In Lua an `item` is a table. Its fields of one or two letters are the stored ones. Whole words are: its id and depth;
-- what w, h and c contain (score, class, role; fence and, with a claim, expires, claimed_at, first_claimed_at, holder;
-- role_changed_at, modified_at, last_entry: nil if not since the creation); and its state in this call (changed,
-- dates_changed).
local claim_record = require 'claim_record'
local classes = require 'classes'
local dates = require 'dates'

local CLASS_SIZE, STATES = classes.CLASS_SIZE, classes.STATES

local items = {}

local MAX_DEPTH = 3
local INLINE_BYTES = 64 -- the longest text in the item's own hash

-- Sets the fields derived from the stored score and the record of a claim (nil for none).
function items.unpack_stored(item, score, claim)
  local class = math.floor(score / CLASS_SIZE)
  item.score, item.class, item.role = tonumber(score), class, math.floor(class / STATES)
  if claim then claim_record.unpack(item, claim) end
end

-- The item of an id, or nil. All of its fields are read: that is cheaper than naming those that are needed.
function items.load(run, id)
  local item = run.loaded[id]
  if item then return item end
  redis.setresp(3) -- returns fields as a table instead of a list
  item = redis.call('HGETALL', run.keys.item .. id).map
  redis.setresp(2)
  if not item.w then return nil end
  item.id, item.depth, run.loaded[id] = id, tonumber(item.d or 0), item
  items.unpack_stored(item, item.w, item.h)
  if item.c then dates.unpack(item, item.c) end
  return item
end

-- The role of an existing item.
function items.load_role(run, id)
  local item = run.loaded[id]
  return item and item.role or classes.role_of(redis.call('HGET', run.keys.item .. id, 'w'))
end

-- Why an id has no item. The caller replaces an unresolved prefix by '?' .. reason, so that every element of a batch
-- reaches the operation, and a retry gets exactly the first answer.
function items.absence_reason(id)
  return string.sub(id, 1, 1) == '?' and string.sub(id, 2) or 'not_found'
end

-- Marks a field (a stored one, or `score`) to be written by `items.save`.
function items.mark_changed(item, field)
  local changed = item.changed
  if changed then
    changed[#changed + 1] = field
  else
    item.changed = {field}
  end
end

-- Sets a stored field, to be written by `items.save`; false or nil removes it.
function items.set(item, field, value)
  value = value or nil
  if item[field] ~= value then
    item[field] = value
    items.mark_changed(item, field)
  end
end

-- Writes the fields of an item that have changed.
function items.save(run, item)
  local changed = item.changed
  if not changed then return end
  local set, size, gone = {}, 0, nil
  for n = 1, #changed do
    local field = changed[n]
    local value = item[field]
    if field == 'c' then value, item.dates_changed = dates.pack(item), nil end
    if value ~= nil then
      set[size + 1], set[size + 2], size = field == 'score' and 'w' or field, value, size + 2
    else
      gone = gone or {}
      gone[#gone + 1] = field
    end
  end
  item.changed = nil
  if set[1] then redis.call('HSET', run.keys.item .. item.id, unpack(set)) end
  if gone then redis.call('HDEL', run.keys.item .. item.id, unpack(gone)) end
end

-- Sets one of the dates of an item, or its last entry.
function items.set_date(item, name, value)
  item[name] = value
  if not item.dates_changed then
    item.dates_changed = true
    items.mark_changed(item, 'c')
  end
end

-- modifiedAt rises strictly, by a millisecond if the clock has not.
function items.set_modified(run, item)
  local before = item.modified_at or classes.created_of(item.score)
  items.set_date(item, 'modified_at', math.max(run.now, before + 1))
end

-- Stores a text (t or s) inline or beside the item, by length; '' and false remove it. `items.save` must follow.
function items.set_text(run, item, field, value)
  local long = value and #value > INLINE_BYTES
  items.set(item, field, value and value ~= '' and not long and value)
  if long then
    redis.call('HSET', run.keys.text .. item.id, field, value)
  else
    redis.call('HDEL', run.keys.text .. item.id, field)
  end
end

-- A text (t, s), nil or false if there is none.
function items.text_of(run, item, field)
  return item[field] or redis.call('HGET', run.keys.text .. item.id, field)
end

function items.title_of(run, item)
  return items.text_of(run, item, 't')
end

items.MAX_DEPTH = MAX_DEPTH
items.INLINE_BYTES = INLINE_BYTES

return items
