-- Settles debts (modules/debts.lua). Operations that depend on it do this first, and refuse (UNSETTLED: to be called
-- again) if there are more debts than one call can settle. So none of them acts between a change and what follows from
-- it.
local blockers = require 'blockers'
local index = require 'index'
local items = require 'items'
local notes = require 'notes'
local serve = require 'serve'

local settle = {}

local WRITES_MAX = 600 -- of a call, roughly; one that has paid for more than half of these does nothing else

-- Changes the counts of blockers that a debt names. Returns how many writes it took.
local function pay_counts(run, debt)
  local counts, found, writes = {}, {}, 0
  for n = 2, #debt, 2 do
    local id, by = debt[n], debt[n + 1]
    local item = items.load_partly(run, id)
    if by ~= 0 then
      counts[id] = by
    elseif item then
      found[#found + 1] = item -- was offered to parked callers when it was made
    end
    writes = writes + 4 + #(item and index.scopes_of(item) or {})
  end
  blockers.change_counts(run, counts)
  index.add_all(run, found)
  return writes
end

-- Offers items to parked calls. Returns how many.
local function pay_offers(run, ids)
  for _, id in ipairs(ids) do
    local item = items.load_partly(run, id)
    if item then index.set_class(run, item, item.class) end
  end
  return #ids
end

-- Settles one debt, unpacked. Returns how many writes it took.
local function pay(run, debt)
  local kind, content = debt[2], debt[3]
  run.events_max = run.events_max or debt[1]
  if kind == 'notes' then
    notes.store_first(run, content)
    return 5 * #content
  end
  local writes = kind == 'offers' and pay_offers(run, content) or pay_counts(run, debt)
  serve.parked_calls(run)
  return writes
end

-- `settle.debts` where something is owed.
local function pay_debts(run)
  local left, packed = WRITES_MAX, redis.call('LPOP', run.keys.owed)
  while packed do
    left = left - pay(run, cmsgpack.unpack(packed))
    packed = left > 0 and not serve.has_offered_enough(run) and redis.call('LPOP', run.keys.owed)
  end
  return left > WRITES_MAX / 2 and redis.call('EXISTS', run.keys.owed) == 0
end

-- Settles debts; returns whether none are left, so that the operation can go on.
function settle.debts(run)
  return redis.call('EXISTS', run.keys.owed) == 0 or pay_debts(run)
end

return settle
