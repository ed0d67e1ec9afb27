-- Events of steps. Those of flows name who may hear of them (feed).
-- owns: none
local events = require 'events'
local steps = require 'steps'

local step_events = {}

local function audience(owner)
  if owner and owner.o ~= 'gateway' then return steps.audience(owner) end
end

-- Appends an event of this kind about a step.
function step_events.emit(run, kind, st)
  events.emit(run, kind, st.r, 's', st.id, 'n', st.k, 'f', st.f, audience(steps.load_owner(run, st.r)))
end

-- The same, with who did it.
function step_events.emit_by(run, kind, st, actor)
  events.emit(run, kind, st.r, 's', st.id, 'n', st.k, 'f', st.f, 'a', actor, audience(steps.load_owner(run, st.r)))
end

-- A worker begins a step, of the project whose keys begin with `prefix`. Gates do not begin, nor does what only
-- records a step.
function step_events.begin(run, st, owner, prefix)
  if owner.o == 'gateway' or st.t == 'g' or st.v == 'recorded' then return end
  events.emit_to(run, prefix, 'step_started', st.r, 's', st.id, 'n', st.k, 'f', st.f, steps.audience(owner))
end

return step_events
