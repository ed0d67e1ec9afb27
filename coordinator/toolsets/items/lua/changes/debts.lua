-- Debts: work that an operation leaves for slices after it (settle.lua), because all of it at once would block
-- the server too long. A debt is stored in the same step as its cause. It is settled before any operation relies on
-- counts of blockers, searches items or writes notes, and before the caller of its cause is answered.
--   owed  packed debts in order, of three kinds; terms = {run.events_max, run.terms} of the operation:
--           {terms, id, change, id, change ..}  changes of counts of blockers; 0 for new items not yet indexed by tags
--                                               and types
--           {terms, 'offers', list of ids}      items to offer to waiting calls
--           {{events kept}, 'notes', list of notes}  first notes of new items (notes.lua)
-- In a call: any, whether it has stored or met debts; counts, by id: the outstanding change of the count of blockers.
-- owns: owed
local debts = {}

local ITEMS_IN_PART = 32

local function own_of(run)
  run[debts] = run[debts] or {any = false, counts = {}}
  return run[debts]
end

-- Notes that there are debts.
function debts.note(run)
  own_of(run).any = true
end

-- Whether this call has stored or met debts.
function debts.are_left(run)
  return run[debts] and run[debts].any or false
end

-- The outstanding change of an item's count of blockers.
function debts.owed_count(run, id)
  return run[debts] and run[debts].counts[id] or 0
end

-- Adds a list of packed debts.
function debts.store(run, parts)
  debts.note(run)
  redis.call('RPUSH', run.keys.owed, unpack(parts))
end

-- Stores changes of counts of blockers as debts: `counts` = {id -> change}, 0 for a new item as above.
function debts.owe_counts(run, counts)
  local terms, parts, owed = {run.events_max, run.terms}, {}, own_of(run).counts
  local part = {terms}
  for id, by in pairs(counts) do
    owed[id] = (owed[id] or 0) + by
    part[#part + 1], part[#part + 2] = id, by
    if #part > 2 * ITEMS_IN_PART then
      parts[#parts + 1], part = cmsgpack.pack(part), {terms}
    end
  end
  if part[2] then parts[#parts + 1] = cmsgpack.pack(part) end
  if parts[1] then debts.store(run, parts) end
end

-- Records the offer of items to parked calls as a debt.
function debts.owe_offers(run, ids)
  local parts = {}
  for first = 1, #ids, ITEMS_IN_PART do
    local ids_in_part = {unpack(ids, first, math.min(first + ITEMS_IN_PART - 1, #ids))}
    parts[#parts + 1] = cmsgpack.pack({{run.events_max, run.terms}, 'offers', ids_in_part})
  end
  if parts[1] then debts.store(run, parts) end
end

-- Takes the next debt, packed; false if there is none.
function debts.take(run)
  return redis.call('LPOP', run.keys.owed)
end

-- Marks a reply if this call has left debts, so that Store.run settles them.
function debts.attach(run, reply)
  return run[debts] and run[debts].any and {reply, 'owed'} or reply
end

return debts
