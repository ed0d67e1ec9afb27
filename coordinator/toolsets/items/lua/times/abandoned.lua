-- Abandoned items: those that their agents have left in the middle.
--   abandoned  abandoned items (`classes.is_left`, held by nobody) by when they were left (ms); those that wait
--              (`classes.waits`) have WAITING_OFFSET added; parents that are offered in work, twice that
-- In a call: whether it has added one.
-- owns: abandoned
local classes = require 'classes'
local clock = require 'clock'

local ABANDONED, STATES = classes.ABANDONED, classes.STATES

local abandoned = {}

local WAITING_OFFSET = 2 ^ 42

-- Adds an item to abandoned, or removes it, according to its state.
function abandoned.note(run, item)
  if not (item.fence or item.ch) then return end
  local left = item.fence and classes.is_left(item, item.role)
  if classes.is_held(item) or not (left or item.class % STATES == ABANDONED) then
    return redis.call('ZREM', run.keys.abandoned, item.id)
  end
  local known, offset = redis.call('ZSCORE', run.keys.abandoned, item.id), left and 0 or 2 * WAITING_OFFSET
  if left and classes.waits(item) then offset = WAITING_OFFSET end
  local since = known and tonumber(known) % WAITING_OFFSET or item.holder and item.expires or run.now
  redis.call('ZADD', run.keys.abandoned, clock.whole(since + offset), item.id)
  run[abandoned] = true
end

-- Whether this call has added one.
function abandoned.was_noted(run)
  return run[abandoned]
end

-- An item is deleted.
function abandoned.forget(run, item)
  if item.fence or item.ch then redis.call('ZREM', run.keys.abandoned, item.id) end
end

abandoned.WAITING_OFFSET = WAITING_OFFSET

return abandoned
