-- Hands newly ready items to the calls that wait for them. Every operation that may make an item ready ends with
-- `serve.parked_calls`; `change` does so for its operations. In a call: how many items were handed to parked calls.
-- owns: none
local apart = require 'apart'
local available = require 'available'
local budgets = require 'budgets'
local classes = require 'classes'
local debts = require 'debts'
local demands = require 'demands'
local handover = require 'handover'
local holders = require 'holders'
local included = require 'included'
local items = require 'items'
local pauses = require 'pauses'
local queues = require 'queues'
local selectors = require 'selectors'
local waiters = require 'waiters'
local wanted = require 'wanted'

local CLASS_SIZE = classes.CLASS_SIZE
local MAX_DEPTH = items.MAX_DEPTH

local serve = {}

local BELOW_MAX = 100 -- items below freed ones read per call
local HAND_OVERS_MAX = 8 -- items handed to parked calls per call; others become a debt
local COMPARISONS_MAX = 1000 -- comparisons of items with waiting selectors per call
local WOKEN_MAX = 100 -- queues
local INCLUDED_MAX = 150 -- notes and results read for those that get items

-- Adds the ready items below a freed item to the list `ready`: they were not available, and may be wanted now. Returns
-- the remaining budget; negative if there are more.
local function find_ready_below(run, id, budget, ready)
  local top = items.load(run, id)
  local list, at = {top and {id, top.depth}}, 1
  while list[at] and budget >= 0 do
    local depth = list[at][2] + 1
    local found = redis.call('ZRANGE', run.keys.ranked .. 'p' .. list[at][1], 0, budget, 'WITHSCORES')
    budget = budget - #found / 2
    for n = 1, #found, 2 do
      if depth < MAX_DEPTH then list[#list + 1] = {found[n], depth} end
      if classes.OFFERED[math.floor(found[n + 1] / CLASS_SIZE)] then ready[#ready + 1] = found[n] end
    end
    at = at + 1
  end
  return budget
end

-- The unheld and unblocked items of a list, counting debts; best first.
local function ready_items(run, ids)
  local ready, seen = {}, {}
  for _, id in ipairs(ids) do
    local item = not seen[id] and items.load(run, id)
    seen[id] = true
    if item and classes.OFFERED[item.class] and debts.owed_count(run, id) == 0 then
      ready[#ready + 1] = item
    end
  end
  table.sort(ready, function(one, other)
    local score, other_score = apart.score_of(one) % CLASS_SIZE, apart.score_of(other) % CLASS_SIZE -- ignoring classes
    if score ~= other_score then return score < other_score end
    return one.id < other.id
  end)
  return ready
end

-- Gives an item to its longest waiting call whose agent may claim.
local function offer_item(run, item)
  if budgets.spent_at(run, item.id) then return end
  local waiter, told
  repeat
    waiter = wanted.longest_waiter(run, item)
    told = waiter and budgets.of_caller(run, waiter.agent)
    if told then handover.refuse(run, waiter, told) end
  until not told
  if waiter then
    handover.give(run, item, waiter)
    run[serve] = (run[serve] or 0) + 1
    selectors.forget_holders(run)
  end
end

-- Whether further items become a debt.
function serve.has_offered_enough(run)
  return (run[serve] or 0) >= HAND_OVERS_MAX or wanted.comparisons(run) > COMPARISONS_MAX
    or included.rows_read(run) > INCLUDED_MAX
end

-- Makes all further items a debt.
function serve.offer_later(run)
  run[serve] = HAND_OVERS_MAX
end

-- `serve.parked_calls` if there is work.
local function offer_ready_items(run)
  local budget, around, later = BELOW_MAX, {}, {}
  selectors.forget_holders(run)
  wanted.forget_selectors(run)
  repeat -- an agent that gets an item may release another one
    local ready, freed = available.take(run, 'ready'), available.take(run, 'freed')
    for _, id in ipairs(freed) do
      if budget >= 0 then budget = find_ready_below(run, id, budget, ready) end
      if budget < 0 then holders.note_freed(run, id, around) end
    end
    for _, item in ipairs(ready_items(run, ready)) do
      if serve.has_offered_enough(run) then
        later[#later + 1] = item.id
      else
        offer_item(run, item)
      end
    end
  until not available.are_items(run)
  queues.flush(run)
  debts.owe_offers(run, later)
  if budget < 0 then
    for _, queue in ipairs(redis.call('ZRANGE', run.keys.waiting, 0, -1)) do waiters.wake(run, queue, around) end
  end
end

-- Makes calls search that may wait for items whose resources this call has given back.
local function wake_for_resources(run)
  if not demands.are_wanted(run, available.take(run, 'given_back')) then return end
  for _, queue in ipairs(redis.call('ZRANGE', run.keys.waiting, 0, WOKEN_MAX - 1)) do waiters.wake(run, queue, {}) end
end

-- Offers the items that this call has made ready or freed; if these are too many, the rest becomes a debt.
function serve.parked_calls(run)
  if run.absent[run.keys.waiting] or pauses.of_claims(run) then return end
  if available.are_items(run) and redis.call('EXISTS', run.keys.waiting) == 1 then offer_ready_items(run) end
  wake_for_resources(run)
end

return serve
