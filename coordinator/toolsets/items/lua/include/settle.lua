-- @include blockers
-- @include notes
-- @include serve
-- Settles debts (include/debts.lua). Scripts that depend on it do this first, and refuse (UNSETTLED: to be called
-- again) if there are more debts than one run can settle. So none of them acts between a change and what follows from
-- it.

local WRITES_MAX = 600 -- of a run, roughly; who has paid for more than half of these does nothing else in it

-- Settles a debt of counts. Returns how many writes it took.
local function pay_counts(list)
  local counts, items, writes = {}, {}, 0
  for n = 2, #list, 2 do
    local id, by = list[n], list[n + 1]
    local item = load_item_partly(id)
    if by ~= 0 then
      counts[id] = by
    elseif item then
      items[#items + 1] = item -- was offered to parked callers when it was made
    end
    writes = writes + 4 + #(item and scopes_of(item) or {})
  end
  change_blocker_counts(counts)
  index_items(items)
  return writes
end

-- `settle_debts` where something is owed.
local function pay_debts(now)
  local function pay_offers(ids)
    for _, id in ipairs(ids) do
      local item = load_item_partly(id)
      if item then set_class(item, item.class) end
    end
    return #ids
  end
  local left, part = WRITES_MAX, redis.call('LPOP', K_OWED)
  while part do
    local list = cmsgpack.unpack(part)
    local events_max, kind, content = list[1], list[2], list[3]
    if kind == 'notes' then
      store_first_notes(content, now, events_max)
      left = left - 5 * #content
    else
      left = left - (kind == 'offers' and pay_offers(content) or pay_counts(list))
      serve_waiters(now, events_max)
    end
    part = left > 0 and not has_offered_enough() and redis.call('LPOP', K_OWED)
  end
  return left > WRITES_MAX / 2 and redis.call('EXISTS', K_OWED) == 0
end

-- Settles debts; returns whether none are left, so that the script can go on.
local function settle_debts(now)
  return redis.call('EXISTS', K_OWED) == 0 or pay_debts(now)
end
