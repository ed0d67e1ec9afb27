-- States that downstream servers keep for callers, each in one worker (workers/states.py). Of a connection,
-- state_owners has '<number> <worker>' of each state by its name, '<project> <owner>', and state_uses when its last
-- call ended: later than now while one is under way. state_leases has the workers of states by the end of their lease.
-- owns: state_owners state_uses state_leases
local clock = require 'clock'

local states = {}

local KEPT_MS = 60000 -- all of this goes that long after the last worker has renewed it

-- Number and worker of a state; nil: there is none.
function states.of(run, connection, state)
  return string.match(redis.call('HGET', run.keys.state_owners .. connection, state) or '', '^(%d+) (.+)$')
end

-- When it was used last, in ms; nil: there is no such state.
function states.used(run, connection, state)
  return tonumber(redis.call('ZSCORE', run.keys.state_uses .. connection, state) or nil)
end

-- Notes that it is used until `time`.
function states.use(run, connection, state, time)
  redis.call('ZADD', run.keys.state_uses .. connection, clock.whole(time), state)
  redis.call('PEXPIRE', run.keys.state_uses .. connection, KEPT_MS)
  redis.call('PEXPIRE', run.keys.state_owners .. connection, KEPT_MS)
end

-- Gives a state to a worker.
function states.assign(run, connection, state, number, worker)
  redis.call('HSET', run.keys.state_owners .. connection, state, number .. ' ' .. worker)
end

-- Forgets a state.
function states.drop(run, connection, state)
  redis.call('HDEL', run.keys.state_owners .. connection, state)
  redis.call('ZREM', run.keys.state_uses .. connection, state)
end

-- Renews the lease of a worker.
function states.renew(run, worker, lease_ms)
  redis.call('ZADD', run.keys.state_leases, clock.whole(run.now + lease_ms), worker)
  redis.call('PEXPIRE', run.keys.state_leases, KEPT_MS)
end

function states.give_up(run, worker)
  redis.call('ZREM', run.keys.state_leases, worker)
end

return states
