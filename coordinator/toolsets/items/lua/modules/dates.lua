-- The record of an item's dates as the item stores it (field c of modules/items.lua): when it came to its role and when
-- it was modified (ms), and the entry of its last transition in transitions. An item has none until one of these
-- changes; a change that has not happened yet is 0, an entry ''.
local dates = {}

local FORMAT = '>I6I6'
local MODIFIED_AT, ENTRY_AT = 7, 13 -- positions in the record

local function time_or_nil(time)
  return time ~= 0 and time or nil
end

function dates.pack(item)
  return struct.pack(FORMAT, item.role_changed_at or 0, item.modified_at or 0) .. (item.last_entry or '')
end

-- Sets the fields of an item from its record.
function dates.unpack(item, record)
  local role_changed_at, modified_at = struct.unpack(FORMAT, record)
  item.role_changed_at, item.modified_at = time_or_nil(role_changed_at), time_or_nil(modified_at)
  item.last_entry = #record >= ENTRY_AT and string.sub(record, ENTRY_AT) or nil
end

-- When an item came to its role, from its record or nil; nil: when it was created.
function dates.role_changed_at(record)
  return record and time_or_nil(struct.unpack('>I6', record))
end

-- When it was modified; as above.
function dates.modified_at(record)
  return record and time_or_nil(struct.unpack('>I6', record, MODIFIED_AT))
end

return dates
