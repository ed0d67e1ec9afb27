-- Events of steps. Those of flows name as u who created the flow: others may not hear of it (feed).
local events = require 'events'
local steps = require 'steps'

local step_events = {}

-- Appends an event of this kind about a step; further fields and values in pairs.
function step_events.emit(run, kind, st, ...)
  local owner = steps.load_owner(run, st.r)
  if not owner or owner.o == 'gateway' then
    return events.emit(run, kind, st.r, 's', st.id, 'n', st.k, 'f', st.f, ...)
  end
  return events.emit(run, kind, st.r, 's', st.id, 'n', st.k, 'f', st.f, 'u', owner.u or '', ...)
end

-- A worker begins a step, of the project whose keys begin with `prefix`. Gates do not begin, nor does what only
-- records a step.
function step_events.begin(run, st, owner, prefix)
  if owner.o == 'gateway' or st.t == 'g' or st.v == 'recorded' then return end
  local stream = steps.key_in(run, prefix, run.keys.events)
  events.emit_to(run, stream, 'step_started', st.r, 's', st.id, 'n', st.k, 'f', st.f, 'u', owner.u or '')
end

return step_events
