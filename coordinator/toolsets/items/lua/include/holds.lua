-- @include item
-- How long claims were held, for somebody to count now and then (measure_items.lua).
--   K_HOLDS  claims that have ended since then, by how (c of a finished item, r released, e expired) and bucket:
--            how many, times HOLD_ONE, and the ms that they were held together

local HOLD_ONE = 2 ^ 44

-- Counts a claim that is over, from its beginning; `expired` if nobody let go of it.
local function count_hold(it, ends, expired)
  local held = ends - it.co
  local s = held / 1000 -- the buckets of CLAIM_HOLD in the catalogue of metrics
  local bucket = s <= 30 and (s <= 1 and 1 or s <= 5 and 2 or s <= 15 and 3 or 4)
    or s <= 900 and (s <= 60 and 5 or s <= 300 and 6 or 7)
    or s <= 3600 and 8 or s <= 14400 and 9 or s <= 43200 and 10 or 11
  local kind = it.role == TERMINAL and 'c' or expired and 'e' or 'r'
  -- Where nobody ever counts, the number overflows after half a million claims, and that is no reason to fail.
  redis.pcall('HINCRBY', K_HOLDS, kind .. bucket, whole(HOLD_ONE + held))
end
