--[[
purpose:   Begins a transition of an instance.
guarantee: Only if the version is the expected one and nothing else is under way; the operation's token is on the
           instance from then on until it is over.
args:      request fingerprint keep_ms engine waiter workflow retention_ms transition trace advance
           advance = packed, see include/advance.lua
reply:     {what, operation, whether there is something for the relay}; what = begun, busy, stale, ended, gone
errors:    REQUEST_ID_REUSED
--]]
-- @include idempotency
-- @include advance
local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local function not_begun(why)
  return cmsgpack.pack({why, '', false})
end
local inst, adv = load_instance(workflow), cmsgpack.unpack(advance)
if not inst then return not_begun('gone') end
if inst.version ~= adv.base then return not_begun('stale') end
if inst.status ~= 'r' then return not_begun('ended') end
if inst.operation then return not_begun('busy') end
set_operation(inst, adv.op, transition, trace)
if adv.next then add_waiter(workflow, waiter) end
apply_advance(inst, adv, keep_ms, retention_ms)
return remember(request, fingerprint, 'D', cmsgpack.pack({'begun', adv.op, hand_over()}), keep_ms)
