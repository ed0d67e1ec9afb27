-- What ends by time: claims, and the back-off after failed attempts. Both end when their time has come, whoever notices
-- it first. Operations that search for items put these back first, in bounded batches; front-ends do it as soon as they
-- are due (coordinator/toolsets/items/expiring.py).
local claims = require 'claims'
local held_back = require 'held_back'

local expiry = {}

local SWEEP_BATCH = 16

-- The keys that an operation with a sweep and a search names to modules/change.lua: what may end by time besides
-- claims, and what a search has to look for.
function expiry.keys(run)
  return run.keys.abandoned, run.keys.retries, run.keys.apart
end

-- Puts back up to `budget` (default SWEEP_BATCH) items whose claims have expired, and as many whose back-off is over.
-- Returns whether none are left.
function expiry.sweep(run, budget)
  local most = budget or SWEEP_BATCH
  local none_left = claims.expire(run, most)
  if run.nothing_else then return none_left end -- no item was in back-off, and these have just begun
  return held_back.sweep(run, most) and none_left
end

-- When the next claim or back-off ends (ms); 0: there is none.
function expiry.next_end(run)
  local claim = redis.call('ZRANGE', run.keys.leases, 0, 0, 'WITHSCORES')[2]
  local retry = redis.call('ZRANGE', run.keys.retries, 0, 0, 'WITHSCORES')[2]
  local first = math.min(tonumber(claim) or math.huge, tonumber(retry) or math.huge)
  return first < math.huge and first or 0
end

expiry.SWEEP_BATCH = SWEEP_BATCH

return expiry
