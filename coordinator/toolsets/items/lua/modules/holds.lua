-- Durations of claims, and failed claims on held items (losers), for metrics: measure_items.lua reads and deletes them.
--   holds  claims that have ended since the last read, a field per way of ending (c item finished, r released,
--            e expired) and bucket of duration. The value packs two sums: HOLD_ONE * number of claims + their ms.
--            Claims that had losers are counted again under l and the bucket of losers, with the losers in place of ms.
--            Attempts (modules/attempts.lua) are counted under a and the reason of the release, or how they ended else;
--            quarantines under q
local classes = require 'classes'
local clock = require 'clock'

local TERMINAL = classes.TERMINAL

local holds = {}

local HOLD_ONE = 2 ^ 44
-- The buckets of CLAIM_LOSERS in the catalogue of metrics.
local LOSER_BUCKETS = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}

-- Counts a failed claim on an item that another agent holds.
function holds.count_loser(run, item)
  item.lo = redis.call('HINCRBY', run.keys.item .. item.id, 'lo', 1)
end

-- Records the losers of an ended claim.
local function record_losers(run, item)
  local lost, bucket = tonumber(item.lo), 1
  for n, bound in ipairs(LOSER_BUCKETS) do
    if lost > bound then bucket = n + 1 end
  end
  redis.pcall('HINCRBY', run.keys.holds, 'l' .. bucket, clock.whole(HOLD_ONE + lost))
  redis.call('HDEL', run.keys.item .. item.id, 'lo')
  item.lo = nil
end

-- The bucket of a duration in seconds, of CLAIM_HOLD in the catalogue of metrics.
local function duration_bucket(s)
  return s <= 30 and (s <= 1 and 1 or s <= 5 and 2 or s <= 15 and 3 or 4)
    or s <= 900 and (s <= 60 and 5 or s <= 300 and 6 or 7)
    or s <= 3600 and 8 or s <= 14400 and 9 or s <= 43200 and 10 or 11
end

-- Counts an attempt or a quarantine.
function holds.count(run, field)
  redis.call('HINCRBY', run.keys.holds, field, 1)
end

-- Records an ended claim, from its beginning to `ends` (ms); `expired` if it was not released.
function holds.record(run, item, ends, expired)
  local held = ends - item.first_claimed_at
  local bucket = duration_bucket(held / 1000)
  local kind = item.role == TERMINAL and 'c' or expired and 'e' or 'r'
  -- If nothing ever reads it, the number overflows after half a million claims; that must not fail.
  redis.pcall('HINCRBY', run.keys.holds, kind .. bucket, clock.whole(HOLD_ONE + held))
  if item.lo then record_losers(run, item) end
end

return holds
