--[[
purpose:   Puts expired claims back and hands the items to parked calls. A process with parked calls runs it when
           the earliest claim expires, and at least once a second to register as alive.
guarantee: Bounded: at most 100 claims a call.
args:      run.events_max process alive_ms
reply:     when the earliest live claim expires (ms), 0 if there is none; now; whether the process was
           still registered as alive, else its parked calls may have been dropped; when the last drain of agents began
errors:    none
writes:    item ranked beneath owed leases agents holds lapsed abandoned notes note request events waiting wanted queue
           waiter alive messages
full:      it removes expired claims
--]]
local agent_drains = require 'agent_drains'
local claims = require 'claims'
local debts = require 'debts'
local serve = require 'serve'
local settle = require 'settle'

local SWEEP_MAX = 100

return function(run, process, alive_ms)
  local was_alive = redis.call('EXISTS', run.keys.alive .. process) == 1
  redis.call('SET', run.keys.alive .. process, '1', 'PX', alive_ms)
  if settle.debts(run) then
    claims.sweep(run, SWEEP_MAX)
    serve.parked_calls(run)
  else
    run.has_debts = true -- settle_debts continues
  end
  local earliest = redis.call('ZRANGE', run.keys.leases, 0, 0, 'WITHSCORES')[2]
  return debts.attach(run, cmsgpack.pack({tonumber(earliest) or 0, run.now, was_alive, agent_drains.begun(run)}))
end
