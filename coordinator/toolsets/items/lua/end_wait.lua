--[[
purpose:   Ends a parked claim: its time is over, its client left, or its process stops.
guarantee: Either the claim was placed before, and its reply comes back, or the waiter is gone and none will
           be placed. With `keep` = 1 that nothing was found is the answer for good; else a repeated call
           parks again.
args:      request fingerprint keep_ms events_max keep
reply:     as claim_next
errors:    REQUEST_ID_REUSED
--]]
-- @include clock
-- @include idempotency
-- @include waiters

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return stored end

local waiter = redis.call('HMGET', K_WAITER .. request, 'q', 'r')
local released = waiter[2] and cmsgpack.unpack(waiter[2]) or {}
if waiter[1] then remove_waiter(request, waiter[1]) end
local reply = cmsgpack.pack({server_time(), {{'no_match', '', 0, 0, 0}}, released})
if keep == '1' then remember(request, fingerprint, 'D', reply, keep_ms) end
return reply
