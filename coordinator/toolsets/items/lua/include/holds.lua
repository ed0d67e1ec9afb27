-- @include item
-- How long claims were held, and how many others failed meanwhile (losers), for metrics: measure_items.lua reads and
-- deletes it.
--   K_HOLDS  claims that have ended since the last read, a field per way of ending (c item finished, r released,
--            e expired) and bucket of duration. The value packs two sums: HOLD_ONE * number of claims + their ms.
--            Claims that had losers are counted again under l and the bucket of losers, with the losers in place of ms

local HOLD_ONE = 2 ^ 44
-- The buckets of CLAIM_LOSERS in the catalogue of metrics.
local LOSER_BUCKETS = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}

-- Counts a failed claim on an item that another agent holds.
local function count_loser(item)
  item.lo = redis.call('HINCRBY', K_ITEM .. item.id, 'lo', 1)
end

-- Records the losers of a claim that is over.
local function record_losers(item)
  local lost, bucket = tonumber(item.lo), 1
  for n, bound in ipairs(LOSER_BUCKETS) do
    if lost > bound then bucket = n + 1 end
  end
  redis.pcall('HINCRBY', K_HOLDS, 'l' .. bucket, whole(HOLD_ONE + lost))
  redis.call('HDEL', K_ITEM .. item.id, 'lo')
  item.lo = nil
end

-- Records a claim that is over, from its beginning to `ends` (ms); `expired` if nobody let go of it.
local function record_hold(item, ends, expired)
  local held = ends - item.first_claimed_at
  local s = held / 1000 -- the buckets of CLAIM_HOLD in the catalogue of metrics
  local bucket = s <= 30 and (s <= 1 and 1 or s <= 5 and 2 or s <= 15 and 3 or 4)
    or s <= 900 and (s <= 60 and 5 or s <= 300 and 6 or 7)
    or s <= 3600 and 8 or s <= 14400 and 9 or s <= 43200 and 10 or 11
  local kind = item.role == TERMINAL and 'c' or expired and 'e' or 'r'
  -- Where nobody ever counts, the number overflows after half a million claims, and that is no reason to fail.
  redis.pcall('HINCRBY', K_HOLDS, kind .. bucket, whole(HOLD_ONE + held))
  if item.lo then record_losers(item) end
end
