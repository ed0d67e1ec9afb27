-- What ends by time: claims, and what holds items back: the back-off after failed attempts, and notBefore. All end when
-- their time has come, whoever notices it first. Operations that search for items put these back first, in bounded
-- batches; front-ends do it as soon as they are due (coordinator/toolsets/items/live/expiring.py).
-- owns: none
local absence = require 'absence'
local claim_ends = require 'claim_ends'
local claims = require 'claims'
local due_times = require 'due_times'
local held_back = require 'held_back'
local requirements = require 'requirements'

local expiry = {}

local SWEEP_BATCH = 16
-- What a sweep and a search would read: what may end by time besides claims, and what keeps items back.
local LOOKED_FOR = {'owed', 'abandoned', 'retries', 'apart', 'spent_budgets', 'spent_ended', 'reserved'}

-- Puts back up to `budget` (default SWEEP_BATCH) items whose claims have expired, and as many that are held back no
-- longer. Returns whether none are left.
function expiry.sweep(run, budget)
  local most = budget or SWEEP_BATCH
  local none_left = claims.expire(run, most)
  if run.absent[run.keys.retries] then return none_left end -- no item was held back, and these have just begun
  return held_back.sweep(run, most) and none_left
end

-- The same with the records of claims on terminal items, which matter to no search.
function expiry.sweep_all(run, budget)
  local none_left = expiry.sweep(run, budget)
  return claims.forget_finished(run, budget) and none_left
end

-- When the next of these ends, or a template is to be looked at (ms); 0: there is none.
function expiry.next_end(run)
  local claim, finished = claim_ends.first(run, false), claim_ends.first(run, true)
  local retry = redis.call('ZRANGE', run.keys.retries, 0, 0, 'WITHSCORES')[2]
  local look = due_times.next_look(run)
  local huge = math.huge
  local first = math.min(claim or huge, finished or huge, tonumber(retry) or huge, look or huge)
  return first < huge and first or 0
end

-- What operations look for with these (change.lua), and those that also change something.
expiry.looked_for = absence.of_keys(LOOKED_FOR, nil, requirements.LOOKED_FOR)
expiry.looked_for_by_changes =
  absence.of_keys(LOOKED_FOR, {'waiting', 'agent_drains', 'paused'}, requirements.LOOKED_FOR)
expiry.SWEEP_BATCH = SWEEP_BATCH

return expiry
