-- @include keys
-- What a script leaves to be done after it, in slices (include/settle.lua), where all of it would keep the server for
-- too long. It is written down in the step that it follows from, and paid before anybody goes by counts of blockers,
-- looks for an item or writes notes; the caller has it paid before it answers.
--   K_OWED  packed, in order, of three kinds:
--           {events kept, id, by how many, id, by how many ..}  changes of counts of blockers; by 0, new items that
--                                                               are to be indexed by their tags and types
--           {events kept, 'offers', list of ids}                items that are to be offered
--           {events kept, 'notes', list of notes}               first notes of new items (include/notes.lua)

local ITEMS_IN_PART = 32

local owed_counts = {} -- by id: by how many this run still owes to change the item's count of blockers
local has_debts = false -- whether it owes anything

-- Adds packed parts to what is owed.
local function store_debts(parts)
  has_debts = true
  redis.call('RPUSH', K_OWED, unpack(parts))
end

-- Owes changes of counts of blockers, {id -> by how many}; by 0 for a new item as above.
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

-- Owes it to items that they are offered to parked callers.
local function owe_offers(ids, events_max)
  local parts = {}
  for first = 1, #ids, ITEMS_IN_PART do
    local some_ids = {unpack(ids, first, math.min(first + ITEMS_IN_PART - 1, #ids))}
    parts[#parts + 1] = cmsgpack.pack({events_max, 'offers', some_ids})
  end
  if parts[1] then store_debts(parts) end
end

-- The reply of a script; the store's side sees by its form that something is owed, and has it paid.
local function with_debts(reply)
  return has_debts and {reply, 'owed'} or reply
end
