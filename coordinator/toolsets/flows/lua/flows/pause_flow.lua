--[[
purpose:   Pauses a running flow: none of its steps begins until it is resumed. Resumes a paused one.
guarantee: Running steps finish and their outcomes are recorded; their successors wait. Timers keep running: steps
           that fall due meanwhile begin when the flow is resumed.
args:      request run.engine id actor reason resumes
           reason = why, kept in the event; resumes = 1: resume it
reply:     _Changed (store/flows.py), or {}: unknown
errors:    REQUEST_ID_REUSED
--]]
local change = require 'change'
local events = require 'events'
local flows = require 'flows'
local handoff = require 'handoff'
local steps = require 'steps'

-- Makes queued and backlogged steps wait until the flow is resumed.
local function pause(run, flow, actor, reason)
  flows.set_status(run, flow, 'p')
  events.emit(run, 'flow_paused', flow.id, 'a', actor, 'why', reason, steps.audience(flow))
  flows.each_open_step(run, flow, function(st)
    if st.s ~= 'q' and st.s ~= 'h' then return end
    steps.detach(run, st)
    st.s = 'p'
    steps.save(run, st)
  end)
end

local function resume(run, flow, actor, reason)
  flows.set_status(run, flow, 'r')
  events.emit(run, 'flow_resumed', flow.id, 'a', actor, 'why', reason, steps.audience(flow))
  flows.each_open_step(run, flow, function(st)
    if st.s == 'p' then handoff.make_ready(run, st) end
  end)
end

return function(run, request, id, actor, reason, resumes)
  return change(run, request, function()
    local flow = steps.load_owner(run, id)
    if not flow then return {}, false end
    local before = flow.s
    if before ~= (resumes == '1' and 'p' or 'r') then return {false, before, false} end
    local act = resumes == '1' and resume or pause
    act(run, flow, actor, reason)
    handoff.refill(run)
    return {true, before, handoff.hand_over(run)}
  end)
end
