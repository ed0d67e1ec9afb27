--[[
purpose:   Ends a parked claim: its time is over, its client left, or its process stops.
guarantee: Either the claim was placed before, and its reply comes back, or the waiter is gone and none will
           be placed. With `keep` = 1 that nothing was found is the answer for good, for every call with the
           request. Else a repeated call parks again, or stays parked if it has moved to another process.
args:      request fingerprint keep_ms events_max keep process
reply:     as claim_next
errors:    REQUEST_ID_REUSED
full:      what was parked is taken away
--]]
-- @include clock
-- @include idempotency
-- @include waiters

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return stored end

local waiter = redis.call('HMGET', K_WAITER .. request, 'p', 'q', 'r', 'w')
local released = waiter[3] and cmsgpack.unpack(waiter[3]) or {}
local reply = cmsgpack.pack({server_time(), {{'no_match', '', 0, 0, 0}}, released})
if waiter[1] and (keep == '1' or waiter[1] == process) then remove_waiters({request}, waiter[2], waiter[4]) end
if keep == '1' then
  remember(request, fingerprint, 'D', reply, keep_ms)
  if waiter[1] then publish_wake(waiter[1], request, reply) end
end
return reply
