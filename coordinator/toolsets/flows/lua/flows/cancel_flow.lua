--[[
purpose:   Cancels a running or paused flow with its open steps; workers that run some are told to stop.
guarantee: Later results are rejected; no further step of the flow begins.
args:      request run.engine id actor
reply:     _Changed (store/flows.py), or {}: unknown
errors:    REQUEST_ID_REUSED
--]]
local change = require 'change'
local flows = require 'flows'
local handoff = require 'handoff'
local steps = require 'steps'

return function(run, request, id, actor)
  return change(run, request, function()
    local flow = steps.load_owner(run, id)
    if not flow then return {}, false end
    local cancelled = flows.is_open(flow)
    if cancelled then
      flows.finish(run, flow, 'x', actor)
      handoff.refill(run)
      handoff.hand_over(run)
    end
    return {cancelled, flow.s}
  end)
end
