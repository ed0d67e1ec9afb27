--[[
purpose:   Cancels a running or paused flow: its open steps are over, and workers that run some are told to stop.
guarantee: Results that come in later are refused; no step of the flow begins any more.
args:      request fingerprint keep_ms engine flow actor
reply:     {whether this call cancelled it, its status} or {}: unknown
errors:    REQUEST_ID_REUSED
--]]
-- @include idempotency
-- @include flow
local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local run = load_run(flow)
if not run then return cmsgpack.pack({}) end
local reply = {is_open(run), run.s}
if reply[1] then
  end_flow(run, 'x', actor)
  reply[2] = 'x'
  refill()
  hand_over()
end
return remember(request, fingerprint, 'D', cmsgpack.pack(reply), keep_ms)
