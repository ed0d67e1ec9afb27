-- @include wanted
-- @include debts
-- Hands the items that a script has made ready to the calls that wait for them. Every script that may make an item
-- ready ends with `serve_waiters`.

local BELOW_MAX = 100 -- items below freed ones that one run looks at
local HAND_OVERS_MAX = 8 -- items that one run gives to parked callers; others are owed
local COMPARISONS_MAX = 1000 -- of items with what is waited for, in one run
local hand_overs = 0

-- Adds the ready items below a freed item to those newly ready: they were out of reach, and may be wanted now. Returns
-- what is left of `budget` after what it has looked at; negative if there are more.
local function find_ready_below(id, budget)
  local top = load_item(id)
  local list, at = {top and {id, tonumber(top.d)}}, 1
  while list[at] and budget >= 0 do
    local depth = list[at][2] + 1
    local found = redis.call('ZRANGE', K_RANKED .. 'p' .. list[at][1], 0, budget, 'WITHSCORES')
    budget = budget - #found / 2
    for n = 1, #found, 2 do
      if depth < MAX_DEPTH then list[#list + 1] = {found[n], depth} end
      if is_ready_class(math.floor(found[n + 1] / CLASS_SIZE)) then newly_ready[#newly_ready + 1] = found[n] end
    end
    at = at + 1
  end
  return budget
end

-- The items of a list that nobody holds and nothing blocks, debts included; best first.
local function ready_items(ids)
  local items, seen = {}, {}
  for _, id in ipairs(ids) do
    local item = not seen[id] and load_item(id)
    seen[id] = true
    if item and is_ready_class(item.class) and (owed_counts[id] or 0) == 0 then
      items[#items + 1] = item
    end
  end
  table.sort(items, function(one, other)
    local score, other_score = one.score % CLASS_SIZE, other.score % CLASS_SIZE -- whatever their classes
    if score ~= other_score then return score < other_score end
    return one.id < other.id
  end)
  return items
end

-- Gives an item to the call that has waited longest for it.
local function offer_item(item, now, events_max)
  local waiter = longest_waiter(item, now)
  if waiter then
    hand_over_item(item, waiter, now, events_max)
    hand_overs, known_holders = hand_overs + 1, nil
  end
end

-- Whether further items are to be owed.
local function has_offered_enough()
  return hand_overs >= HAND_OVERS_MAX or comparisons > COMPARISONS_MAX
end

-- `serve_waiters` where there is something to do.
local function offer_ready_items(now, events_max)
  local budget, around, later = BELOW_MAX, {}, {}
  known_holders, known_selectors = nil, {}
  repeat -- who is given an item may let go of another one
    local freed = freed_ids
    freed_ids = {}
    for _, id in ipairs(freed) do
      if budget >= 0 then budget = find_ready_below(id, budget) end
      if budget < 0 then note_freed(id, around) end
    end
    local items = ready_items(newly_ready)
    newly_ready = {}
    for _, item in ipairs(items) do
      if has_offered_enough() then
        later[#later + 1] = item.id
      else
        offer_item(item, now, events_max)
      end
    end
  until #newly_ready + #freed_ids == 0
  flush_queues()
  owe_offers(later, events_max)
  if budget < 0 then
    for _, queue in ipairs(redis.call('ZRANGE', K_WAITING, 0, -1)) do wake_queue(queue, now, around) end
  end
end

local nobody_waits = false -- set by a script that has looked

-- Offers the items that this run has made ready or freed; if these are too many, the rest becomes a debt.
local function serve_waiters(now, events_max)
  if nobody_waits or #newly_ready + #freed_ids == 0 then return end
  return redis.call('EXISTS', K_WAITING) == 1 and offer_ready_items(now, events_max)
end
