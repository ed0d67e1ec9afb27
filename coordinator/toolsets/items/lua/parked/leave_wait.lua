--[[
purpose:   Ends a parked claim whose client has hung up. If it was handed an item already, gives the item back and
           deletes the record of the request but for its releases, so that a retry claims again.
guarantee: The item stays claimed if another call with the request got the reply or may still get it
           (handover.lua), or if the agent has renewed the claim since and so knows of it. The call stays
           parked for other processes that hold it. Its releases are not undone.
args:      request run.events_max run.terms process
reply:     1: an item was given back, else 0
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local claims = require 'claims'
local debts = require 'debts'
local handover = require 'handover'
local items = require 'items'
local requests = require 'requests'
local serve = require 'serve'
local settle = require 'settle'
local starting = require 'starting'
local waiters = require 'waiters'

-- Gives back the item of a recorded reply (unpacked). Of the record, what was released stays, which a retry must not
-- release again. Returns the reply of this operation.
local function give_back(run, request, reply)
  if not settle.debts(run) then return redis.error_reply('FLEET UNSETTLED') end
  local claim, claimed_at = reply[2][1], reply[1]
  local item = items.load(run, claim[2])
  if not item or not item.holder or item.fence ~= claim[5] or item.claimed_at ~= claimed_at then return 0 end
  starting.undo(run, item, item.holder, {'', ''})
  claims.release(run, item, '', '')
  if reply[3][1] then
    requests.remember(run, request, 'P', cmsgpack.pack({run.now, {}, reply[3]}))
  else
    requests.forget(run, {request.id})
  end
  serve.parked_calls(run)
  return debts.attach(run, 1)
end

-- Does not use `change`, because it undoes the record of the request.
return function(run, request, process)
  local stored, state = requests.recall(run, request)
  if not stored and state then return state end -- an error
  if not stored or state == 'P' then
    local waiter = waiters.load(run, request.id)
    if waiter then waiters.leave(run, request.id, waiter, process) end
    return 0
  end
  local reply = state == 'H' and cmsgpack.unpack(stored)
  local at = reply and string.find(reply[4], process, 1, true)
  if not at then return 0 end
  local holders = string.sub(reply[4], 1, at - 1) .. string.sub(reply[4], at + #process)
  if holders == '' then return give_back(run, request, reply) end
  handover.save_holders(run, request, reply, holders)
  return 0
end
