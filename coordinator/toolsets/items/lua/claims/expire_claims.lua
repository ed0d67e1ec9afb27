--[[
purpose:   Puts back what has ended by time: expired claims, and items whose back-off is over.
guarantee: Bounded: at most 50 of each a call. Ready items go to parked calls in the same step.
args:      run.events_max run.terms
reply:     Expired (store/base.py)
errors:    UNSETTLED
full:      it removes expired claims
--]]
local debts = require 'debts'
local due_times = require 'due_times'
local expiry = require 'expiry'
local serve = require 'serve'
local settle = require 'settle'

local SWEEP_MAX = 50

return function(run)
  if not settle.debts(run) then return redis.error_reply('FLEET UNSETTLED') end
  local none_left = expiry.sweep_all(run, SWEEP_MAX)
  serve.parked_calls(run)
  return debts.attach(run, cmsgpack.pack({none_left, expiry.next_end(run), run.now, due_times.templates(run)}))
end
