-- @include keys
-- Debts: work that a script leaves to be done in slices after it (include/settle.lua), because all of it at once would
-- keep the server too long. A debt is stored in the same step as its cause. It is settled before any script relies on
-- counts of blockers, looks for an item or writes notes, and before the caller of its cause is answered.
--   K_OWED  packed debts in order, of three kinds:
--           {events kept, id, change, id, change ..}  changes of counts of blockers; 0 for new items that are still
--                                                     to be indexed by their tags and types
--           {events kept, 'offers', list of ids}      items that are to be offered to waiting calls
--           {events kept, 'notes', list of notes}     first notes of new items (include/notes.lua)

local ITEMS_IN_PART = 32

local owed_counts = {} -- by id: the change of the item's count of blockers that this run still owes
local has_debts = false -- whether this run has stored debts

-- Adds packed debts.
local function store_debts(parts)
  has_debts = true
  redis.call('RPUSH', K_OWED, unpack(parts))
end

-- Stores changes of counts of blockers as debts, {id -> change}; 0 for a new item as above.
local function owe_counts(counts, events_max)
  local parts, part = {}, {events_max}
  for id, by in pairs(counts) do
    owed_counts[id] = (owed_counts[id] or 0) + by
    part[#part + 1], part[#part + 2] = id, by
    if #part > 2 * ITEMS_IN_PART then
      parts[#parts + 1], part = cmsgpack.pack(part), {events_max}
    end
  end
  if part[2] then parts[#parts + 1] = cmsgpack.pack(part) end
  if parts[1] then store_debts(parts) end
end

-- Records as a debt that items are to be offered to parked calls.
local function owe_offers(ids, events_max)
  local parts = {}
  for first = 1, #ids, ITEMS_IN_PART do
    local some_ids = {unpack(ids, first, math.min(first + ITEMS_IN_PART - 1, #ids))}
    parts[#parts + 1] = cmsgpack.pack({events_max, 'offers', some_ids})
  end
  if parts[1] then store_debts(parts) end
end

-- The reply of a script. By its form, Store.run sees whether there are debts, and settles them.
local function with_debts(reply)
  return has_debts and {reply, 'owed'} or reply
end
