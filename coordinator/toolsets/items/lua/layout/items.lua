-- The stored layout of a work item: one small hash (listpack encoding: short field names, defaults are
-- not stored; all times in ms) and one entry per scope in the ranked index. Fields of the hash:
--   w record of its state: score, dates, status label, claim, last transition (item_record.lua)
--   t title  s summary  pr previous role  d depth  pa parent  g tags  y type  q traits  rv requires verification
--   rq capabilities that it requires (requirements.lua)
--   rs resources that it demands, ro 1 if it says so itself (demands.lua)  as its set (apart.lua)
--   nb unsatisfied blockers  lv graph level  k put aside (bounds.lua)
--   u not claimed since it came to its role (only if it was claimed before): 1 by a cascade or a reopening, 2 by the
--     resumption of a quarantined item
--   tk fence of the claim that took it over while it was abandoned, until `start` (advance_item.lua)
--   lo how many claims on it failed during the current claim  hc the fence of one that is counted as ended, because
--     the item had ended before it was reopened (both holds.lua)
--   us, ub, bu, bx usage of the item and below it, and its budget (usage.lua, budgets.lua)
--   an, am, rb attempts, and what the item says about them (attempts.lua)
--   nt, nv held back until, not before (held_back.lua)
--   ch what its children are (children.lua)  st 1 if it is a container: never offered, whatever its children
--   du, rc, rn, oc when it is due, and how it recurs (due_times.lua)
-- Texts over INLINE_BYTES are in a second hash under the same letters, so that the first stays small; always there:
--   x description  m metadata  o properties  a last attempts (attempts.lua)
-- A third key finds items by how their ids begin:
--   prefixes  four hex digits: the rest of the ids
-- In Lua an `item` is a table. Its fields of one or two letters are the stored ones. Whole words are: its id and depth;
-- what w contains (score, class, role; fence and, with a claim, expires, claimed_at, first_claimed_at, holder; lb;
-- role_changed_at, modified_at, last_entry: nil if not since the creation); and its state in this call: changed,
-- record_changed; ends_claim, whether its claim ends in this step with its end, which is written once for both.
-- owns: item text prefixes
local classes = require 'classes'
local item_fields = require 'item_fields'
local item_record = require 'item_record'

local CLASS_SIZE, STATES = classes.CLASS_SIZE, classes.STATES

local items = {}

local MAX_DEPTH = 3
local INLINE_BYTES = 64 -- the longest text in the item's own hash

local IN_RECORD = {score = true, lb = true, role_changed_at = true, modified_at = true, last_entry = true}
items.PLAIN = item_fields.PLAIN -- letters of fields.py; views show what is stored, and occurrences repeat it
local IN_HASH, BY_LENGTH, BESIDE = {g = true, y = true, q = true}, {t = true, s = true}, {x = true, m = true, o = true}
for n = 1, #items.PLAIN do IN_HASH[items.PLAIN[n]] = true end

-- Sets the fields of an item from its record.
function items.unpack_record(item, record)
  item_record.unpack(item, record)
  local class = math.floor(item.score / CLASS_SIZE)
  item.class, item.role = class, math.floor(class / STATES)
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
  items.unpack_record(item, item.w)
  return item
end

-- The role of an existing item.
function items.load_role(run, id)
  local item = run.loaded[id]
  return item and item.role or classes.role_of(item_record.score(redis.call('HGET', run.keys.item .. id, 'w')))
end

-- Why an id has no item. The caller replaces an unresolved prefix by '?' .. reason, so that every element of a batch
-- reaches the operation, and a retry gets exactly the first answer.
function items.absence_reason(id)
  return string.sub(id, 1, 1) == '?' and string.sub(id, 2) or 'not_found'
end

-- Whether a text is kept beside the item.
function items.is_beside(field, text)
  return BESIDE[field] or BY_LENGTH[field] and text and #text > INLINE_BYTES
end

-- Whether a field that a caller gives is stored as it is.
function items.is_plain(field)
  return IN_HASH[field] or BY_LENGTH[field]
end

-- Marks a field (a stored one, or one of the record) to be written by `items.save`.
function items.mark_changed(item, field)
  local changed = item.changed
  if IN_RECORD[field] then
    item.record_changed = true
  elseif changed then
    changed[#changed + 1] = field
  else
    item.changed = {field}
  end
end

-- Sets a field, stored or of the record, to be written by `items.save`; false or nil removes it.
function items.set(item, field, value)
  value = value or nil
  if item[field] ~= value then
    item[field] = value
    items.mark_changed(item, field)
  end
end

-- Writes the fields of an item that have changed, and the record if `with_record` is true or it has changed.
function items.save(run, item, with_record)
  local changed, record = item.changed, (with_record or item.record_changed) and item_record.pack(item)
  item.changed, item.record_changed = nil, nil
  if not changed then return record and redis.call('HSET', run.keys.item .. item.id, 'w', record) end -- the usual case
  local set, size, gone = record and {'w', record} or {}, record and 2 or 0, nil
  for n = 1, #changed do
    local field = changed[n]
    local value = item[field]
    if value ~= nil then
      set[size + 1], set[size + 2], size = field, value, size + 2
    else
      gone = gone or {}
      gone[#gone + 1] = field
    end
  end
  if set[1] then redis.call('HSET', run.keys.item .. item.id, unpack(set)) end
  if gone then redis.call('HDEL', run.keys.item .. item.id, unpack(gone)) end
end

-- Writes the record of an item now, and further fields and values in pairs.
function items.save_record(run, item, ...)
  redis.call('HSET', run.keys.item .. item.id, 'w', item_record.pack(item), ...)
end

-- modifiedAt rises strictly, by a millisecond if the clock has not.
function items.set_modified(run, item)
  local before = item.modified_at or classes.created_of(item.score)
  items.set(item, 'modified_at', math.max(run.now, before + 1))
end

-- Stores a new item: fields and values of its hash in turn, and those beside it.
function items.create(run, id, fields, texts)
  redis.call('HSET', run.keys.item .. id, unpack(fields))
  if texts[1] then redis.call('HSET', run.keys.text .. id, unpack(texts)) end
  redis.call('ZADD', run.keys.prefixes .. string.sub(id, 1, 4), 0, string.sub(id, 5))
end

-- Deletes an item with all of its fields.
function items.erase(run, id)
  redis.call('DEL', run.keys.item .. id, run.keys.text .. id)
  redis.call('ZREM', run.keys.prefixes .. string.sub(id, 1, 4), string.sub(id, 5))
  run.loaded[id] = nil
end

-- Sets a field as a caller gives it; false removes it. `items.save` must follow.
function items.give(run, item, field, value)
  local beside = items.is_beside(field, value)
  if items.is_plain(field) or IN_RECORD[field] then items.set(item, field, not beside and value) end
  if beside and value then
    redis.call('HSET', run.keys.text .. item.id, field, value)
  elseif beside or BY_LENGTH[field] then
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

-- A field that has another value than somebody was shown (field -> text, '' for none, p priority, c complexity); nil:
-- none has.
function items.not_as_shown(run, item, shown)
  for field, text in pairs(shown or {}) do
    local now = field == 'p' and classes.priority_of(item.score) or field == 'c' and classes.complexity_of(item.score)
      or item[field]
    now = now or redis.call('HGET', run.keys.text .. item.id, field) or ''
    if now .. '' ~= text then return field end
  end
end

items.MAX_DEPTH = MAX_DEPTH

return items
