--[[
purpose:   Ends a parked claim, because its time is over, its client has left, or its process stops.
guarantee: Either the claim was placed before, and its reply is returned; or the waiter is removed, and no claim will
           be placed. With `keep` = 1, "nothing was found" is recorded as the answer to every call with the request.
           Else a repeated call parks again, or stays parked if it has moved to another process.
args:      request fingerprint keep_ms events_max keep process
reply:     as claim_next
errors:    REQUEST_ID_REUSED
full:      it removes what was parked
--]]
-- @include clock
-- @include idempotency
-- @include waiters

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return stored end

local waiter = load_waiter(request)
local released = waiter and cmsgpack.unpack(waiter.releases) or {}
local reply = cmsgpack.pack({server_time(), {{'no_match', '', 0, 0, 0}}, released})
if waiter and (keep == '1' or waiter.process == process) then remove_waiters({request}, waiter.queue, waiter.places) end
if keep == '1' then
  remember(request, fingerprint, 'D', reply, keep_ms)
  if waiter then publish_wake(waiter.process, request, reply) end
end
return reply
