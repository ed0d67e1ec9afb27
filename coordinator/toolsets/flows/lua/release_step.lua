--[[
purpose:   Releases a gate, or lets a step begin at once that waits for its time, or because its flow is paused.
guarantee: A gate is released once; who let a step begin is on record. What follows a step of a paused flow waits.
args:      request fingerprint keep_ms engine step actor
reply:     {whether this call did it, the step's status before, whether there is something for the relay}
           or {}: no such open step
errors:    REQUEST_ID_REUSED
--]]
-- @include idempotency
-- @include flow
local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local st = load_step(step)
if not st then return cmsgpack.pack({}) end
local reply = {st.s == 'g' or st.s == 'd' or st.s == 'p', st.s, false}
if reply[1] then
  detach(st)
  st.g = actor
  emit(env.cap, 'step_released', st.r, 's', st.id, 'n', st.k, 'a', actor)
  make_ready(st, true)
  reply[3] = hand_over()
end
return remember(request, fingerprint, 'D', cmsgpack.pack(reply), keep_ms)
