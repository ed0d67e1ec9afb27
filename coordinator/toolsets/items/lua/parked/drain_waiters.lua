--[[
purpose:   Answers parked claims of drained agents, of one queue.
guarantee: Bounded: at most 100 parked claims a call. Each gets its answer once, and so does any retry of it.
args:      queue after
           after = position of the last one that was looked at, 0 at the beginning
reply:     {position of the last one looked at, 0 at the end; how many were answered}
errors:    none
--]]
local agent_drains = require 'agent_drains'
local requests = require 'requests'
local waiters = require 'waiters'

local LOOKED_AT_MAX = 100

-- Answers a parked claim if its agent is drained. Returns whether it is.
local function answer(run, id)
  local waiter = waiters.load(run, id)
  local name = waiter and agent_drains.of(run, waiter.agent)
  if not name then return false end
  local reply = cmsgpack.pack({run.now, {{'agent_draining', name, 0, 0, 0}}, cmsgpack.unpack(waiter.releases)})
  requests.remember(run, {id = id, fingerprint = waiter.fingerprint, keep_ms = waiter.keep_ms}, 'D', reply)
  waiters.answer(run, id, waiter, waiter.processes, reply)
  return true
end

return function(run, queue, after)
  local flat = redis.call('ZRANGEBYSCORE', run.keys.queue .. queue, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0,
    LOOKED_AT_MAX)
  local answered = 0
  for n = 1, #flat, 2 do
    if answer(run, flat[n]) then answered = answered + 1 end
  end
  return cmsgpack.pack({#flat == 2 * LOOKED_AT_MAX and tonumber(flat[#flat]) or 0, answered})
end
