--[[
purpose:   Ends a parked claim, because its time is over or its process stops. (Its client has left: leave_wait.lua.)
guarantee: Either the claim was placed before, and its reply is returned; or the waiter is removed, and no claim will
           be placed. With `keep` = 1, "nothing was found" is recorded as the answer to every call with the request.
           Else the call stays parked for the other processes that hold it, if any, and a repeated call parks again.
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
if stored then return {stored} end

local waiter = load_waiter(request)
local released = waiter and cmsgpack.unpack(waiter.releases) or {}
local reply = cmsgpack.pack({server_time(), {{'no_match', '', 0, 0, 0}}, released})
if keep == '1' then
  remember(request, fingerprint, 'D', reply, keep_ms)
  if waiter then
    remove_waiters({request}, waiter.queue, waiter.places)
    publish_wake(waiter.processes, request, reply)
  end
elseif waiter then
  leave_call(request, waiter, process)
end
return reply
