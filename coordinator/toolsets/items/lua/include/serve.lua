-- @include wanted
-- @include debts
-- Hands out what a run of a script has made ready: every script that may do so ends with `serve_waiters`.

local BELOW_MAX = 100 -- items below freed ones that one run looks at
local HAND_OVERS_MAX = 8 -- items that one run gives to parked callers; others are owed
local COMPARISONS_MAX = 1000 -- of items with what is waited for, in one run
local handed_over = 0

-- Items below one that nobody holds any more were out of reach and may be wanted now. Takes what it looks
-- at from `budget`; negative when there are more.
local function find_ready_below(id, budget)
  local top = load_item(id)
  local list, at = {top and {id, tonumber(top.d)}}, 1
  while list[at] and budget >= 0 do
    local depth = list[at][2] + 1
    local found = redis.call('ZRANGE', K_RANKED .. 'p' .. list[at][1], 0, budget, 'WITHSCORES')
    budget = budget - #found / 2
    for n = 1, #found, 2 do
      if depth < MAX_DEPTH then list[#list + 1] = {found[n], depth} end
      local class = math.floor(found[n + 1] / CLASS_SIZE)
      if class % 3 == READY and class ~= TERMINAL * 3 then newly_ready[#newly_ready + 1] = found[n] end
    end
    at = at + 1
  end
  return budget
end

-- The items of a list that nobody holds and nothing blocks, or is to block once what is owed is paid; best first.
local function ready_items(ids)
  local items, seen = {}, {}
  for _, id in ipairs(ids) do
    local item = not seen[id] and load_item(id)
    seen[id] = true
    if item and item.class % 3 == READY and item.role ~= TERMINAL and (owed_counts[id] or 0) == 0 then
      items[#items + 1] = {item.score % CLASS_SIZE, id, item}
    end
  end
  table.sort(items, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  return items
end

-- Gives an item to who has waited longest for it.
local function offer_item(item, now, events_max)
  local waiter = longest_waiter(item, now)
  if waiter then
    hand_over_item(item, waiter, now, events_max)
    handed_over, known_holders = handed_over + 1, nil
  end
end

local function has_offered_enough()
  return handed_over >= HAND_OVERS_MAX or comparisons > COMPARISONS_MAX
end

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
    for _, entry in ipairs(items) do
      if has_offered_enough() then
        later[#later + 1] = entry[2]
      else
        offer_item(entry[3], now, events_max)
      end
    end
  until #newly_ready + #freed_ids == 0
  flush_queues()
  owe_offers(later, events_max)
  if budget < 0 then
    for _, queue in ipairs(redis.call('ZRANGE', K_WAITING, 0, -1)) do wake_queue(queue, now, around) end
  end
end

local nobody_waits = false -- set by who has looked

local function serve_waiters(now, events_max)
  if nobody_waits or #newly_ready + #freed_ids == 0 then return end
  return redis.call('EXISTS', K_WAITING) == 1 and offer_ready_items(now, events_max)
end
