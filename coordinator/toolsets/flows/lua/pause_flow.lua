--[[
purpose:   Pauses a running flow: none of its steps begins until it is resumed. Resumes a paused one.
guarantee: Steps that run go on, and their outcomes are recorded; what follows them waits. Time goes on: what would
           have begun in the meantime begins when the flow is resumed.
args:      request fingerprint keep_ms engine flow actor resume
           resume = 1: resume it
reply:     {whether this call did it, its status before, whether there is something for the relay} or {}: unknown
errors:    REQUEST_ID_REUSED
--]]
-- @include idempotency
-- @include flow
local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local run = load_run(flow)
if not run then return cmsgpack.pack({}) end
local resumes = resume == '1'
local reply = {run.s == (resumes and 'p' or 'r'), run.s, false}
if reply[1] then
  set_status(run, resumes and 'r' or 'p')
  emit(env.cap, resumes and 'flow_resumed' or 'flow_paused', flow, 'a', actor)
  each_open_step(run, function(st)
    if resumes and st.s == 'p' then
      make_ready(st)
    elseif not resumes and (st.s == 'q' or st.s == 'h') then
      detach(st)
      st.s = 'p'
      save_step(st)
    end
  end)
  refill()
  reply[3] = hand_over()
end
return remember(request, fingerprint, 'D', cmsgpack.pack(reply), keep_ms)
