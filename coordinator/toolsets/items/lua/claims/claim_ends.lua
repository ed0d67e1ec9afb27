-- When claims end.
--   leases  agents by when their claims end (ms). A claim on a terminal item holds nothing, only its record is there
--           until then: it is listed behind the others, with FINISHED added
-- owns: leases
local classes = require 'classes'
local clock = require 'clock'

local TERMINAL = classes.TERMINAL

local claim_ends = {}

local FINISHED = 2 ^ 42
local LIVE_MAX = '4398046511103' -- the last score of claims that hold something: FINISHED - 1

-- Records when the claim of a held item ends.
function claim_ends.note(run, item)
  local offset = item.role == TERMINAL and FINISHED or 0
  redis.call('ZADD', run.keys.leases, item.expires + offset, item.holder)
end

-- Removes the claims of agents.
function claim_ends.remove(run, ...)
  redis.call('ZREM', run.keys.leases, ...)
end

-- How many claims hold something, of those that end after `from` and up to `to` (ms; nil: at any time).
function claim_ends.count(run, from, to)
  return redis.call('ZCOUNT', run.keys.leases, clock.whole(from + 1), to and clock.whole(to) or LIVE_MAX)
end

-- How many claims on terminal items end after a time (ms).
function claim_ends.count_finished(run, from)
  return redis.call('ZCOUNT', run.keys.leases, clock.whole(FINISHED + from + 1), '+inf')
end

-- The agents with claims on terminal items whose time is over, at most `most`.
function claim_ends.finished(run, most)
  local last = clock.whole(FINISHED + run.now)
  return redis.call('ZRANGEBYSCORE', run.keys.leases, clock.whole(FINISHED), last, 'LIMIT', 0, most)
end

-- When the first claim ends (ms); nil if there is none. `finished` = of those on terminal items.
function claim_ends.first(run, finished)
  local from = finished and clock.whole(FINISHED) or '-inf'
  local to = finished and '+inf' or LIVE_MAX
  local score = redis.call('ZRANGEBYSCORE', run.keys.leases, from, to, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return score and tonumber(score) - (finished and FINISHED or 0)
end

claim_ends.LIVE_MAX = LIVE_MAX

return claim_ends
