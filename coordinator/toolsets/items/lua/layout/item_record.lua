-- The record of an item's state as the item stores it (field w of items.lua): all that changes with a claim or
-- a transition. coordinator/store/record_layout.py lays it out. Of an item in Lua, lb is its status label, and
-- last_entry the entry of its last transition.
-- owns: none
local classes = require 'classes'
local record_layout = require 'record_layout'

local CLASS_SIZE, FINISHED = classes.CLASS_SIZE, classes.TERMINAL * classes.STATES + classes.HELD

local item_record = {}

local RECORD, SCORE, LENGTHS = record_layout.RECORD, record_layout.SCORE, record_layout.LENGTHS
local TIME, TIMES, SCORE_BYTES = record_layout.TIME, record_layout.TIMES, record_layout.SCORE_BYTES
local ROLE_CHANGED_AT, MODIFIED_AT = record_layout.ROLE_CHANGED_AT, record_layout.MODIFIED_AT
local EXPIRES_AT, LENGTHS_AT, TEXTS_AT = record_layout.EXPIRES_AT, record_layout.LABEL_BYTES_AT, record_layout.TEXTS_AT

local function time_or_nil(time)
  return time ~= 0 and time or nil
end

function item_record.pack(item)
  local label, entry = item.lb or '', item.last_entry or ''
  if not (item.fence or item.modified_at or item.role_changed_at or item.lb) then
    return struct.pack(SCORE, item.score)
  end
  return struct.pack(RECORD, item.score, item.role_changed_at or 0, item.modified_at or 0, item.fence or 0,
    item.expires or 0, item.claimed_at or 0, item.first_claimed_at or 0, #label, #entry)
    .. label .. entry .. (item.holder or '')
end

-- Sets the fields of an item from its record.
function item_record.unpack(item, record)
  if #record == SCORE_BYTES then
    item.score = struct.unpack(SCORE, record)
    return
  end
  local score, role_changed_at, modified_at, fence, expires, claimed_at, first_claimed_at, label_bytes, entry_bytes =
    struct.unpack(RECORD, record)
  local entry_at = TEXTS_AT + label_bytes
  local holder_at = entry_at + entry_bytes
  item.score, item.role_changed_at, item.modified_at = score, time_or_nil(role_changed_at), time_or_nil(modified_at)
  item.fence = time_or_nil(fence)
  if label_bytes > 0 then item.lb = string.sub(record, TEXTS_AT, entry_at - 1) end
  if entry_bytes > 0 then item.last_entry = string.sub(record, entry_at, holder_at - 1) end
  if expires == 0 then return end
  item.expires, item.claimed_at, item.first_claimed_at = expires, claimed_at, first_claimed_at
  item.holder = string.sub(record, holder_at)
end

-- Single parts of a record; the score and the claim also of nil, for no item.

function item_record.score(record)
  return record and struct.unpack(SCORE, record)
end

-- Nil: when the item was created.
function item_record.role_changed_at(record)
  return #record > SCORE_BYTES and time_or_nil(struct.unpack(TIME, record, ROLE_CHANGED_AT)) or nil
end

-- As above.
function item_record.modified_at(record)
  return #record > SCORE_BYTES and time_or_nil(struct.unpack(TIME, record, MODIFIED_AT)) or nil
end

-- When an item came to its role, was modified, its fence, and when its claim ends, was renewed and was placed (ms); 0
-- for none. Of a record with a claim.
function item_record.claim_times(record)
  return struct.unpack(TIMES, record, ROLE_CHANGED_AT)
end

-- False for none.
function item_record.label(record)
  if #record == SCORE_BYTES then return false end
  local bytes = struct.unpack(LENGTHS, record, LENGTHS_AT)
  return bytes > 0 and string.sub(record, TEXTS_AT, TEXTS_AT + bytes - 1)
end

-- Whether an item ended under a claim that had not expired: it holds nothing.
local function is_finished(record)
  return math.floor(item_record.score(record) / CLASS_SIZE) == FINISHED
end

-- 'unclaimed', 'claimed' or 'expired'.
function item_record.claim_status(run, record)
  local expires = record and #record > SCORE_BYTES and struct.unpack(TIME, record, EXPIRES_AT) or 0
  if expires == 0 or expires <= run.now and is_finished(record) then return 'unclaimed' end
  return expires > run.now and 'claimed' or 'expired'
end

-- The holder of a live claim on an item that is not terminal; nil if there is none.
function item_record.live_holder(run, record)
  if item_record.claim_status(run, record) ~= 'claimed' then return nil end
  if is_finished(record) then return nil end
  local label_bytes, entry_bytes = struct.unpack(LENGTHS, record, LENGTHS_AT)
  return string.sub(record, TEXTS_AT + label_bytes + entry_bytes)
end

return item_record
