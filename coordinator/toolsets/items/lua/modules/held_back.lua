-- Items that selectors do not find because agents have failed with them (modules/attempts.lua): for a time, in
-- back-off, or in quarantine. Both are in a class of items that wait, unless they are held. A change of role ends both;
-- a back-off also ends by itself: `held_back.sweep` runs wherever expired claims are put back.
--   nt           when the back-off of an item ends (ms); QUARANTINE: it is quarantined
--   retries      items in back-off, by when it ends (ms)
--   quarantined  quarantined items, by since when (ms)
local classes = require 'classes'
local clock = require 'clock'
local index = require 'index'
local items = require 'items'

local held_back = {}

local QUARANTINE = '0'
local RESTORED = 4102444800000 -- 2100-01-01: of items that are being restored (restore_items.lua)
local SWEEP_WRITES = 1500 -- per sweep, roughly: items with many tags go on a few at a time

-- Whether an item is quarantined.
function held_back.is_quarantined(item)
  return item.nt == QUARANTINE
end

-- Holds an item back until a time (ms). The caller moves it to its class, and saves it.
function held_back.postpone(run, item, ends)
  redis.call('ZADD', run.keys.retries, ends, item.id)
  items.set(item, 'nt', clock.whole(ends))
end

-- Marks an item as quarantined. The caller moves it to its class, and saves it.
function held_back.quarantine(run, item)
  redis.call('ZADD', run.keys.quarantined, run.now, item.id)
  items.set(item, 'nt', QUARANTINE)
end

-- Whether an item is being restored.
function held_back.is_restored(item)
  return item.nt == clock.whole(RESTORED)
end

-- Quarantines an item that is being restored, since a time (ms), and saves it.
function held_back.quarantine_since(run, item, since)
  held_back.finish(run, item)
  held_back.quarantine(run, item)
  redis.call('ZADD', run.keys.quarantined, since, item.id)
  items.save(run, item)
end

-- Ends back-off and quarantine of an item. The caller moves it to its class, and saves it.
function held_back.finish(run, item)
  if not item.nt then return end
  redis.call('ZREM', held_back.is_quarantined(item) and run.keys.quarantined or run.keys.retries, item.id)
  items.set(item, 'nt', nil)
end

-- Ends the back-off of an item, and moves it.
function held_back.let_go(run, item)
  held_back.finish(run, item)
  if not classes.is_held(item) then index.move_to_class(run, item, classes.unclaimed_class(item, item.role)) end
  items.save(run, item)
end

-- Lets up to `budget` items go whose back-off is over. Returns whether none are left.
function held_back.sweep(run, budget)
  local due = redis.call('ZRANGEBYSCORE', run.keys.retries, '-inf', run.now, 'LIMIT', 0, budget)
  local left = SWEEP_WRITES
  for n, id in ipairs(due) do
    if left <= 0 then return false end
    local item = items.load(run, id)
    held_back.let_go(run, item)
    left = left - 4 - #index.scopes_of(item)
    if n == budget then return false end
  end
  return true
end

held_back.RESTORED = RESTORED

return held_back
