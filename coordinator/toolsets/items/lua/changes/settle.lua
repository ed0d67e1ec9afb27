-- Settles debts (debts.lua). Operations that depend on it do this first, and return UNSETTLED (to be called
-- again) if there are more debts than one call can settle. So none of them sees a half-applied change.
-- owns: none
local blockers = require 'blockers'
local debts = require 'debts'
local index = require 'index'
local items = require 'items'
local notes = require 'notes'
local serve = require 'serve'
local terms = require 'terms'

local settle = {}

local WRITES_MAX = 600 -- per call, roughly; a call that has made more than half of these does nothing else

-- Applies the count changes of a debt. Returns the number of writes.
local function pay_counts(run, debt)
  local counts, found, writes = {}, {}, 0
  for n = 2, #debt, 2 do
    local id, by = debt[n], debt[n + 1]
    local item = items.load(run, id)
    if by ~= 0 then
      counts[id] = by
    elseif item then
      found[#found + 1] = item -- was offered to parked calls at its creation
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
    local item = items.load(run, id)
    if item then index.set_class(run, item, item.class) end
  end
  return #ids
end

-- Settles one debt, unpacked. Returns the number of writes.
local function pay(run, debt)
  local its, kind, content = debt[1], debt[2], debt[3]
  run.events_max = run.events_max or its[1]
  if not run.terms and its[2] then run.terms, run.settings = its[2], terms.parts(its[2]) end
  if kind == 'notes' then
    notes.store_first(run, content)
    return 5 * #content
  end
  local writes = kind == 'offers' and pay_offers(run, content) or pay_counts(run, debt)
  serve.parked_calls(run)
  return writes
end

-- `settle.debts` if there are debts.
local function pay_debts(run)
  local left, packed = WRITES_MAX, debts.take(run)
  while packed do
    left = left - pay(run, cmsgpack.unpack(packed))
    packed = left > 0 and not serve.has_offered_enough(run) and debts.take(run)
  end
  return left > WRITES_MAX / 2 and redis.call('EXISTS', run.keys.owed) == 0
end

-- Settles debts; returns whether none are left, so that the operation can proceed.
function settle.debts(run)
  return redis.call('EXISTS', run.keys.owed) == 0 or pay_debts(run)
end

return settle
