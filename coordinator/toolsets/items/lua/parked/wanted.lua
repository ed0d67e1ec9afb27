-- Decides which parked call (waiters.lua) gets an item. In a call: selectors, by place, as `selectors_at` has
-- them; comparisons, of items with them.
-- owns: none
local classes = require 'classes'
local index = require 'index'
local parked = require 'parked'
local queues = require 'queues'
local requirements = require 'requirements'
local selectors = require 'selectors'

local QUEUE, STATES = classes.QUEUE, classes.STATES

local wanted = {}

local BUSY_MAX = 16 -- waiters looked at for one that holds itself what an item demands
local PASSED_COST = 1 / 16 -- of a waiter that is passed over, relative to comparing an item with a selector

local function own_of(run)
  run[wanted] = run[wanted] or {selectors = {}, comparisons = 0}
  return run[wanted]
end

-- How many comparisons of items with waiting selectors this call has made.
function wanted.comparisons(run)
  return run[wanted] and run[wanted].comparisons or 0
end

-- Forgets the waiting selectors, as calls may have parked or left.
function wanted.forget_selectors(run)
  own_of(run).selectors = {}
end

-- The waiting selectors at a place, by queue.
local function selectors_at(run, place)
  local own = own_of(run)
  if not own.selectors[place] then
    local found, flat = {}, redis.call('HGETALL', run.keys.wanted .. place)
    own.comparisons = own.comparisons + #flat / 2
    for n = 1, #flat, 2 do
      if tonumber(string.sub(flat[n + 1], 1, 13)) > run.now then
        found[flat[n]] = cmsgpack.unpack(string.sub(flat[n + 1], 14))
      else
        parked.forget_selector(run, place, flat[n])
      end
    end
    own.selectors[place] = found
  end
  return own.selectors[place]
end

-- The places of an item.
local function places_around(run, item)
  local scopes, above, list, class = index.scopes_of(item), item.pa, {}, item.role * STATES
  scopes[#scopes + 1] = '*'
  while above do
    scopes[#scopes + 1] = 'a' .. above
    above = redis.call('HGET', run.keys.item .. above, 'pa')
  end
  for _, scope in ipairs(scopes) do
    list[#list + 1] = scope .. ':' .. class
    if class > 0 and item.class ~= class then list[#list + 1] = scope .. ':' .. QUEUE * STATES end -- abandoned
  end
  return list
end

-- The first waiter of a queue that may get an item for a selector, nil if none may.
local function first_that_may(run, queue, item, selector)
  local search = {selector = selector}
  if requirements.against(run, item, search) ~= nil then return nil end
  -- The only agent that may get it; nil: any, false: none.
  local holder = selectors.holder_above(run, item, selector.parent or selector.ancestor)
  if holder == false then return nil end
  local own, busy = own_of(run), 0
  return queues.first(run, queue, function(waiter)
    own.comparisons = own.comparisons + PASSED_COST
    if holder and waiter.agent ~= holder then return false end
    search.agent = waiter.agent
    local why = requirements.against(run, item, search)
    if why == nil then return true end
    busy = busy + (why == 'resources' and 1 or 0)
    return false, busy > BUSY_MAX
  end)
end

-- The longest waiting match for an item, with its selector; nil: none.
function wanted.longest_waiter(run, item)
  local own, best = own_of(run), nil
  for _, place in ipairs(places_around(run, item)) do
    for queue, selector in pairs(selectors_at(run, place)) do
      own.comparisons = own.comparisons + 1
      local too_late = queues.none_before(run, queue, best and best.order or math.huge)
      if not too_late and selectors.matches(run, item, selector) then
        local waiter = first_that_may(run, queue, item, selector)
        if waiter and (not best or waiter.order < best.order) then
          best, waiter.selector = waiter, selector
        end
      end
    end
  end
  return best
end

return wanted
