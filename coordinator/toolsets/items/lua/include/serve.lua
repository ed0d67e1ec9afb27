-- @include wanted
-- @include debts
-- Hands out what a run of a script has made ready: every script that may do so ends with `serve`.

local BELOW = 100 -- items below freed ones that one run looks at
local HAND_OVERS = 8 -- items that one run gives to parked callers; others are owed
local COMPARISONS = 1000 -- of items with what is waited for, in one run
local handed_over = 0

-- Items below one that nobody holds any more were out of reach and may be wanted now. Takes what it looks
-- at from `budget`; negative when there are more.
local function look_below(id, budget)
  local top = load(id)
  local list, at = {top and {id, tonumber(top.d)}}, 1
  while list[at] and budget >= 0 do
    local depth = list[at][2] + 1
    local found = redis.call('ZRANGE', K_RANKED .. 'p' .. list[at][1], 0, budget, 'WITHSCORES')
    budget = budget - #found / 2
    for n = 1, #found, 2 do
      if depth < MAX_DEPTH then list[#list + 1] = {found[n], depth} end
      local class = math.floor(found[n + 1] / CLASS)
      if class % 3 == READY and class ~= TERMINAL * 3 then readied[#readied + 1] = found[n] end
    end
    at = at + 1
  end
  return budget
end

-- The items of a list that nobody holds and nothing blocks, or is to block once what is owed is paid; best first.
local function ready_of(ids)
  local items, seen = {}, {}
  for _, id in ipairs(ids) do
    local it = not seen[id] and load(id)
    seen[id] = true
    if it and it.class % 3 == READY and it.role ~= TERMINAL and (owing[id] or 0) == 0 then
      items[#items + 1] = {it.w % CLASS, id, it}
    end
  end
  table.sort(items, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  return items
end

-- Gives an item to who has waited longest for it.
local function offer(it, now, cap)
  local waiter = first_for(it, now)
  if waiter then
    hand_over(it, waiter, now, cap)
    handed_over, keepers = handed_over + 1, nil
  end
end

local function has_offered_enough()
  return handed_over >= HAND_OVERS or compared > COMPARISONS
end

local function hand_out(now, cap)
  local budget, around, later = BELOW, {}, {}
  keepers, sought = nil, {}
  repeat -- who is given an item may let go of another one
    local freed = unshielded
    unshielded = {}
    for _, id in ipairs(freed) do
      if budget >= 0 then budget = look_below(id, budget) end
      if budget < 0 then note_freed(id, around) end
    end
    local items = ready_of(readied)
    readied = {}
    for _, entry in ipairs(items) do
      if has_offered_enough() then
        later[#later + 1] = entry[2]
      else
        offer(entry[3], now, cap)
      end
    end
  until #readied + #unshielded == 0
  settle_queues()
  owe_offers(later, cap)
  if budget < 0 then
    for _, queue in ipairs(redis.call('ZRANGE', K_WAITING, 0, -1)) do poke(queue, now, around) end
  end
end

local nobody_waits = false -- set by who has looked

local function serve(now, cap)
  if nobody_waits or #readied + #unshielded == 0 then return end
  return redis.call('EXISTS', K_WAITING) == 1 and hand_out(now, cap)
end
