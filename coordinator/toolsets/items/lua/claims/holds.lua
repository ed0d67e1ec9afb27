-- Durations of claims, and failed claims on held items (losers), for metrics: measure_items.lua reads and deletes them.
--   holds  claims that have ended since the last read, a field per way of ending (c item ended, r released,
--            e expired) and bucket of duration. The value packs two sums: HOLD_ONE * number of claims + their ms.
--            Claims that had losers are counted again under l and the bucket of losers, with the losers in place of ms.
--            Attempts (attempts.lua) are counted under a and the reason of the release, or how they ended else;
--            quarantines under q
-- owns: item.hc item.lo holds
local classes = require 'classes'
local clock = require 'clock'
local items = require 'items'

local TERMINAL = classes.TERMINAL

local holds = {}

local HOLD_ONE = 2 ^ 44
-- The buckets of CLAIM_HOLD (ms) and CLAIM_LOSERS in the catalogue of metrics.
local HOLD_BUCKETS = {500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 9e5, 36e5, 144e5, 432e5}
local LOSER_BUCKETS = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}

-- Counts a failed claim on an item that another agent holds.
function holds.count_loser(run, item)
  item.lo = redis.call('HINCRBY', run.keys.item .. item.id, 'lo', 1)
end

-- Adds one to the claims with a number (ms or losers) in a bucket.
local function add(run, kind, buckets, number)
  local bucket = 1
  while bucket <= #buckets and number > buckets[bucket] do bucket = bucket + 1 end
  -- If nothing ever reads it, the number overflows after half a million claims; that must not fail.
  redis.pcall('HINCRBY', run.keys.holds, kind .. bucket, clock.whole(HOLD_ONE + number))
end

-- Counts an attempt or a quarantine.
function holds.count(run, field)
  redis.call('HINCRBY', run.keys.holds, field, 1)
end

-- Reads and deletes the counts: fields and numbers in turn.
function holds.take(run)
  local ended = redis.call('HGETALL', run.keys.holds)
  if ended[1] then redis.call('DEL', run.keys.holds) end
  return ended
end

-- Notes that an item was reopened under its claim, which was recorded when the item had ended.
function holds.go_on(item)
  items.set(item, 'hc', clock.whole(item.fence))
end

-- Records an ended claim, from its beginning to `ends` (ms), once; `expired` if it was not released.
function holds.record(run, item, ends, expired)
  local once = tonumber(item.hc) ~= item.fence
  local kind = item.role == TERMINAL and 'c' or expired and 'e' or 'r'
  if once then add(run, kind, HOLD_BUCKETS, ends - item.first_claimed_at) end
  if not item.lo then return end
  if once then add(run, 'l', LOSER_BUCKETS, tonumber(item.lo)) end
  redis.call('HDEL', run.keys.item .. item.id, 'lo')
  item.lo = nil
end

return holds
