-- Hands items to parked calls (waiters.lua), whose clients may have hung up unnoticed. So the record of a
-- waiting call has the state H, and its reply a fourth element, the holders: the processes whose clients may get it,
-- first the one that counts the claim. A process whose client has hung up removes its name, and the last one gives the
-- item back (leave_wait.lua). A call that gets the reply later joins the holders, or makes the record final (D).
-- owns: none
local budgets = require 'budgets'
local claim_parts = require 'claim_parts'
local queues = require 'queues'
local requests = require 'requests'
local starting = require 'starting'
local usage = require 'usage'
local waiters = require 'waiters'

local handover = {}

-- Claims an item for a waiter from `queues.first`, and answers its call. `waiter.selector` = its selector.
function handover.give(run, item, waiter)
  queues.leave(run, waiter)
  local agent, ttl_ms = waiter.agent, tonumber(waiter.ttl_ms)
  local claim = starting.claim(run, item, agent, ttl_ms, waiter.selector, item.rs, waiter.author)
  if waiter.used then usage.add(run, item.id, agent, cmsgpack.unpack(waiter.used)) end
  if (waiter.include or '') ~= '' then claim_parts(run, claim, waiter.include) end
  local reply = cmsgpack.pack({run.now, {claim}, cmsgpack.unpack(waiter.releases), waiter.processes})
  waiters.publish(run, waiter.processes, waiter.id, requests.remember(run, waiter, 'H', reply))
end

-- Answers the call of a waiter from `queues.first` whose agent may claim nothing any more, because its budget is spent.
function handover.refuse(run, waiter, told)
  queues.leave(run, waiter)
  local reply = cmsgpack.pack({run.now, {budgets.refusal(run, '', told)}, cmsgpack.unpack(waiter.releases)})
  waiters.publish(run, waiter.processes, waiter.id, requests.remember(run, waiter, 'D', reply))
end

-- Stores the holders of a recorded reply (unpacked).
function handover.save_holders(run, request, reply, holders)
  reply[4] = holders
  requests.replace(run, request, cmsgpack.pack(reply))
end

-- Records in a record of state H, with the packed reply `stored`, that another call gets that reply. `process` holds
-- the call, '' if it does not wait; `only` = '1': the process has no other call with the request, so an earlier one
-- got the reply.
function handover.join(run, request, stored, process, only)
  local reply = cmsgpack.unpack(stored)
  local known = string.find(reply[4], process, 1, true)
  if process == '' or known and only == '1' then
    requests.finish(run, request.id)
  elseif not known then
    handover.save_holders(run, request, reply, reply[4] .. process)
  end
end

return handover
