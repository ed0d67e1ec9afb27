--[[
purpose:   Puts back expired claims and items whose back-off is over, and hands the items to parked calls. A process
           with parked calls runs it when the next of these ends, and at least once a second to register as alive.
guarantee: Bounded: at most 100 of each a call.
args:      run.events_max run.terms process alive_ms counted
           counted = 1: count the messages to the process
reply:     Swept (store/claims.py)
errors:    none
full:      it removes expired claims
--]]
local agent_drains = require 'agent_drains'
local debts = require 'debts'
local due_times = require 'due_times'
local expiry = require 'expiry'
local serve = require 'serve'
local settle = require 'settle'
local waiters = require 'waiters'

local SWEEP_MAX = 100

return function(run, process, alive_ms, counted)
  local told = waiters.register(run, process, alive_ms, counted)
  if settle.debts(run) then
    expiry.sweep_all(run, SWEEP_MAX)
    serve.parked_calls(run)
  else
    debts.note(run) -- settle_debts continues
  end
  local begun, templates = agent_drains.begun(run), due_times.templates(run)
  return debts.attach(run, cmsgpack.pack({expiry.next_end(run), run.now, told, begun, templates}))
end
