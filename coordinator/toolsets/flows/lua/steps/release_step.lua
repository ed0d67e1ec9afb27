--[[
purpose:   Releases a gate, or lets a delayed or paused step begin at once.
guarantee: A gate is released once; the actor is recorded. Successors of a step of a paused flow wait.
args:      request run.engine step actor via
           via = how the answer came, if not by a call of its own, or ''
reply:     _Changed (store/flows.py), or {}: no such open step
errors:    REQUEST_ID_REUSED
--]]
local answered = require 'answered'
local change = require 'change'
local handoff = require 'handoff'
local step_events = require 'step_events'
local steps = require 'steps'

-- The statuses from which a step can be released.
local RELEASABLE = {g = true, d = true, p = true}

return function(run, request, step, actor, via)
  return change(run, request, function()
    local st = steps.load(run, step)
    if not st then return {}, false end
    local before = st.s
    if not RELEASABLE[before] then return {false, before, false} end
    local flow = before == 'g' and steps.load_owner(run, st.r)
    if flow then
      answered.note(run, 'gate', {tonumber(step), st.k, tonumber(st.r), flow.n, flow.u, flow.ro or '', actor, via})
    end
    steps.detach(run, st)
    st.g = via == '' and actor or actor .. '\0' .. via
    step_events.emit_by(run, 'step_released', st, actor)
    handoff.make_ready(run, st, true)
    return {true, before, handoff.hand_over(run)}
  end)
end
