-- Hands items to parked calls (modules/waiters.lua), whose clients may have hung up unnoticed. So the record of a call
-- that waits has the state H, and its reply a fourth element, the holders: the processes whose clients may get it,
-- first the one that counts the claim. A process whose client turns out to be gone takes its name out, and the last of
-- them gives the item back (leave_wait.lua). A call that gets the reply later joins the holders, or makes the record
-- final (D).
local claims = require 'claims'
local queues = require 'queues'
local requests = require 'requests'
local waiters = require 'waiters'

local handover = {}

-- Claims an item for a waiter as `queues.front` gives it, and answers its call. `waiter.selector` = what it asks for.
function handover.give(run, item, waiter)
  queues.leave(run, waiter)
  local claim = claims.acquire(run, item, waiter.agent, tonumber(waiter.ttl_ms), waiter.selector)
  local reply = cmsgpack.pack({run.now, {claim}, cmsgpack.unpack(waiter.releases), waiter.processes})
  waiters.publish(run, waiter.processes, waiter.id, requests.remember(run, waiter, 'H', reply))
end

-- Stores the holders of a recorded reply (unpacked).
function handover.save_holders(run, request, reply, holders)
  reply[4] = holders
  redis.call('SET', run.keys.request .. request.id, request.fingerprint .. 'H' .. cmsgpack.pack(reply), 'KEEPTTL')
end

-- Notes in a record of state H, whose packed reply is `stored`, that a further call gets that reply. `process` holds
-- the call, '' if it does not wait; `only` = '1': the process has no other call with the request, so one that it had
-- has got the reply.
function handover.join(run, request, stored, process, only)
  local reply = cmsgpack.unpack(stored)
  local known = string.find(reply[4], process, 1, true)
  if process == '' or known and only == '1' then
    redis.call('SETRANGE', run.keys.request .. request.id, #request.fingerprint, 'D')
  elseif not known then
    handover.save_holders(run, request, reply, reply[4] .. process)
  end
end

return handover
