--[[
purpose:   Ends a parked claim whose client has hung up. If it was handed an item before that was noticed, gives the
           item back and forgets the request, so that a repeated call claims anew.
guarantee: The item stays claimed if another call with the request has got the reply or may still get it
           (include/handover.lua), or if the agent has renewed the claim since, which shows that it knows of it. The
           call stays parked for other processes that hold it. Its releases are not undone.
args:      request fingerprint keep_ms events_max process
reply:     1: an item was given back, else 0
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include releases
-- @include settle

local now = server_time()
local stored, state, refused = recall(request, fingerprint)
if refused then return refused end
if not stored then
  local waiter = load_waiter(request)
  if waiter then leave_call(request, waiter, process) end
  return 0
end
local reply = state == 'H' and cmsgpack.unpack(stored)
local at = reply and string.find(reply[4], process, 1, true)
if not at then return 0 end

local holders = string.sub(reply[4], 1, at - 1) .. string.sub(reply[4], at + #process)
if holders ~= '' then
  save_holders(request, fingerprint, reply, holders)
  return 0
end
if not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end
local granted, granted_at = reply[2][1], reply[1]
local item = load_item_partly(granted[2])
if not item or not item.holder or item.fence ~= granted[5] or item.claimed_at ~= granted_at then return 0 end
release_claim(item, events_max, now)
redis.call('DEL', K_REQUEST .. request)
serve_waiters(now, events_max)
return with_debts(1)
