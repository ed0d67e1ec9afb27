-- @include waiters
-- Hands items to parked calls (include/waiters.lua), whose clients may have hung up unnoticed. So the record of a call
-- that waits has the state H, and its reply a fourth element, the holders: the processes whose clients may get it, first
-- the one that counts the claim. A process whose client turns out to be gone takes its name out, and the last of them
-- gives the item back (leave_wait.lua). A call that gets the reply later joins the holders, or makes the record final (D).

-- Claims an item for a waiter of `queue_states`, and answers the call.
local function hand_over_item(item, waiter, now, events_max)
  leave_queue(waiter)
  local result = acquire_claim(item, waiter.agent, tonumber(waiter.ttl_ms), now, events_max, waiter.selector)
  local reply = cmsgpack.pack({now, {result}, cmsgpack.unpack(waiter.releases), waiter.processes})
  publish_wake(waiter.processes, waiter.name, remember(waiter.name, waiter.fingerprint, 'H', reply, waiter.keep_ms))
end

-- Stores the holders of a recorded reply.
local function save_holders(name, fingerprint, reply, holders)
  reply[4] = holders
  redis.call('SET', K_REQUEST .. name, fingerprint .. 'H' .. cmsgpack.pack(reply), 'KEEPTTL')
end

-- Notes in a record of state H that a further call gets its reply. `process` holds that call, '' if it does not wait;
-- `only` = '1': the process has no other call with the request, so one that it had has got the reply.
local function join_holders(name, fingerprint, stored, process, only)
  local reply = cmsgpack.unpack(stored)
  local known = string.find(reply[4], process, 1, true)
  if process == '' or known and only == '1' then
    redis.call('SETRANGE', K_REQUEST .. name, 16, 'D')
  elseif not known then
    save_holders(name, fingerprint, reply, reply[4] .. process)
  end
end
