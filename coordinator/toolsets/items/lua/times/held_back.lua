-- Items that selectors do not find yet: until a time, as an agent has failed with them (back-off,
-- attempts.lua) or because they say so themselves (notBefore); in quarantine; or as templates of recurring ones
-- (due_times.lua). They are in a class of items that wait, unless they are held. Of a back-off and a notBefore
-- the later one counts. Both end by themselves (`held_back.sweep` runs wherever expired claims are put back). A change
-- of role ends back-off and quarantine.
--   nt           until when an item is held back (ms); QUARANTINE: it is quarantined, TEMPLATE: it is a template
--   nv           not before: from when it can be ready (ms); it stays when that time has come
--   retries      items that are held back until a time, by that (ms)
--   backoffs     those in back-off, by when it ends (ms)
--   postponed    those whose nv lay ahead when somebody last looked, by that (ms); not in role terminal, nor in
--                quarantine
--   quarantined  quarantined items, by since when (ms)
-- owns: item.nt retries backoffs postponed quarantined
local classes = require 'classes'
local clock = require 'clock'
local index = require 'index'
local items = require 'items'

local TERMINAL = classes.TERMINAL

local held_back = {}

local QUARANTINE, TEMPLATE = '0', '1'
local RESTORED = 4102444800000 -- 2100-01-01: of items that are being restored (restore_items.lua)
local SWEEP_WRITES = 1500 -- per sweep, roughly: items with many tags go on a few at a time

-- Whether an item is quarantined.
function held_back.is_quarantined(item)
  return item.nt == QUARANTINE
end

-- Whether an item is held back as a template.
function held_back.is_template(item)
  return item.nt == TEMPLATE
end

-- From when the item can be ready by its notBefore (ms); nil if that does not hold it back, or less than a back-off.
function held_back.not_before(item)
  return item.nv and item.nt == item.nv and tonumber(item.nv) or nil
end

local function hold_until(run, item, ends)
  redis.call('ZADD', run.keys.retries, ends, item.id)
  items.set(item, 'nt', clock.whole(ends))
end

-- Holds an item back until a time (ms), or longer by notBefore. The caller moves it to its class, and saves it.
function held_back.postpone(run, item, ends)
  if item.rc then return end -- never offered anyway
  redis.call('ZADD', run.keys.backoffs, ends, item.id)
  hold_until(run, item, math.max(ends, tonumber(item.nv) or 0))
end

-- Marks an item as quarantined. The caller moves it to its class, and saves it.
function held_back.quarantine(run, item)
  redis.call('ZADD', run.keys.quarantined, run.now, item.id)
  if item.nv then
    redis.call('ZREM', run.keys.retries, item.id)
    redis.call('ZREM', run.keys.postponed, item.id)
  end
  items.set(item, 'nt', QUARANTINE)
end

-- Holds an item that is being restored back; `held_back.is_restored` says whether one is.
function held_back.restore(run, item)
  hold_until(run, item, RESTORED)
end

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

-- Holds an item of a role back as its notBefore says. The caller moves it to its class, and saves it.
local function apply_not_before(run, item, role)
  local from = tonumber(item.nv)
  if role == TERMINAL or from <= run.now or item.rc then
    redis.call('ZREM', run.keys.postponed, item.id)
  else
    redis.call('ZADD', run.keys.postponed, from, item.id)
    hold_until(run, item, from)
  end
end

-- Ends back-off and quarantine of an item; `role` = the one that it will have. The caller moves it to its class, and
-- saves it.
function held_back.finish(run, item, role)
  if not (item.nt or item.nv or item.rc) then return end
  if held_back.is_quarantined(item) then
    redis.call('ZREM', run.keys.quarantined, item.id)
  elseif item.nt then
    redis.call('ZREM', run.keys.retries, item.id)
    redis.call('ZREM', run.keys.backoffs, item.id)
  end
  items.set(item, 'nt', item.rc and (role or item.role) ~= TERMINAL and TEMPLATE)
  if item.nv then apply_not_before(run, item, role or item.role) end
end

-- The same for an item that is deleted.
function held_back.forget(run, item)
  held_back.finish(run, item, TERMINAL)
end

-- Sets or clears (false) from when an item can be ready (ms), and keeps a back-off. The caller moves it to its class,
-- and saves it.
function held_back.set_not_before(run, item, from)
  local backoff = item.nt and not held_back.is_quarantined(item) and redis.call('ZSCORE', run.keys.backoffs, item.id)
  items.set(item, 'nv', from and clock.whole(from))
  if not from then redis.call('ZREM', run.keys.postponed, item.id) end
  if held_back.is_quarantined(item) or held_back.is_restored(item) or item.rc then return end
  if item.nt then redis.call('ZREM', run.keys.retries, item.id) end
  items.set(item, 'nt', nil)
  if from then apply_not_before(run, item, item.role) end
  if backoff then held_back.postpone(run, item, tonumber(backoff)) end
end

-- Moves an item to the class that follows from what holds it back, and saves it.
function held_back.place(run, item)
  if not classes.is_held(item) then index.move_to_class(run, item, classes.unclaimed_class(item, item.role)) end
  items.save(run, item)
end

-- Ends the back-off of an item, and moves it.
function held_back.let_go(run, item)
  held_back.finish(run, item)
  held_back.place(run, item)
end

-- Lets up to `budget` items go that have been held back long enough. Returns whether none are left.
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

return held_back
