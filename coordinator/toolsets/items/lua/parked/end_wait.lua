--[[
purpose:   Ends a parked claim, because it has timed out or its process stops. (Client hung up: leave_wait.lua.)
guarantee: Either the claim was placed before, and its reply is returned; or the waiter is removed, and no claim will
           be placed. With `keep` = 1, "nothing was found" is recorded as the answer to every call with the request.
           Else the call stays parked for other processes that hold it, if any, and a retry parks again.
args:      request run.events_max run.terms keep process
reply:     ClaimReply (store/claims.py), as that of claim_next
errors:    REQUEST_ID_REUSED UNSETTLED
full:      it removes a parked call
--]]
local budgets = require 'budgets'
local change = require 'change'
local held_counts = require 'held_counts'
local pauses = require 'pauses'
local waiters = require 'waiters'

-- The claim of a call that has found nothing.
local function no_match(run, waiter, keep)
  local told, pause = waiter and budgets.of_caller(run, waiter.agent), waiter and pauses.of_claims(run)
  if told then return budgets.refusal(run, '', told) end
  if pause then return pauses.refusal(pause) end
  local selector = waiter and keep == '1' and waiters.selector_at(run, waiter.queue, waiter.places)
  return selector and held_counts.no_match(run, selector, waiter.agent, 0) or {'no_match', '', 0, 0, 0}
end

return function(run, request, keep, process)
  return change(run, request, {}, function(progress)
    local waiter = not run.absent[run.keys.waiting] and waiters.load(run, request.id) or nil
    -- The waiter may be gone since its time was over.
    local made = waiter and cmsgpack.unpack(waiter.releases) or progress and cmsgpack.unpack(progress)[3] or {}
    local reply = {run.now, {no_match(run, waiter, keep)}, made}
    if keep ~= '1' then
      if waiter then waiters.leave(run, request.id, waiter, process) end
      return reply, false
    end
    if waiter then waiters.answer(run, request.id, waiter, waiter.processes, cmsgpack.pack(reply)) end
    return reply
  end)
end
