--[[
purpose:   Begins a transition of an instance.
guarantee: Only if the version is the expected one and nothing else is under way; the operation's token is on the
           instance from then on until it is over.
args:      request fingerprint keep_ms engine waiter workflow retention_ms transition trace advance
reply:     {what, operation, whether there is something for the relay}; what = begun, busy, stale, ended, gone
errors:    REQUEST_ID_REUSED
--]]
-- @include idempotency
-- @include advance
local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local inst, adv = load_instance(workflow), cmsgpack.unpack(advance)
if not inst then return cmsgpack.pack({'gone', '', false}) end
if inst.v ~= adv[2] then return cmsgpack.pack({'stale', '', false}) end
if inst.s ~= 'r' then return cmsgpack.pack({'ended', '', false}) end
if inst.c then return cmsgpack.pack({'busy', '', false}) end
engage(inst, adv[1], transition, trace)
if adv[13] then await(workflow, waiter) end
apply(inst, adv, keep_ms, retention_ms)
return remember(request, fingerprint, 'D', cmsgpack.pack({'begun', adv[1], hand_over()}), keep_ms)
