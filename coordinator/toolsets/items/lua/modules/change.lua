-- The protocol of an operation that changes items; takes the place of the store's change.lua.
local debts = require 'debts'
local requests = require 'requests'
local serve = require 'serve'
local settle = require 'settle'

-- What answers the request without a change: the recorded reply, or an error reply if the request id was used for
-- something else. Else nil, and how far a long call with this request has come (packed), if it has begun.
local function recall(run, request, joined)
  local stored, state = requests.recall(run, request)
  if not stored then return state end
  if state == 'P' then return nil, stored end
  if joined then joined(stored, state) end
  return {stored}
end

-- In this order, in one atomic step:
--   1. A request that has been answered gets the same answer again, whatever has happened since. Nothing comes before
--      that: a repeated call must not have a second effect of any kind. `joined(stored, state)`, where an operation
--      gives it, is told of each such call.
--   2. What earlier operations owe is settled (modules/settle.lua), so that `body` sees the counts and indexes as if
--      these had done all of it at once. If there is too much, nothing else happens in this step: the caller repeats
--      the call. Settling may serve a parked call with this very request, so the record is looked for once more.
--   3. `body` makes the change. It returns the reply, a table; an error reply means that it has changed nothing, and is
--      not recorded, so that the call can be repeated when the reason is gone. A second value is the state letter of
--      the record (D by default), or `false`: the reply is not to be recorded. A reply recorded with 'P' is the
--      progress of a call that takes several steps: 1 lets it pass, and `body` gets it (packed, else nil) to go on from
--      there.
--   4. Items that have become ready go to parked calls that wait for them (modules/serve.lua): after the change,
--      because it makes them ready, and in the same step, so that no other call can take them first. A call that `body`
--      has parked just now may get one of them: its answer is the record, then.
--   5. The reply is recorded, after all that it depends on.
-- One command finds out that 1, 2 and 4 have nothing to do, as nearly always; and besides that there are no abandoned
-- items, and none of the further keys that an operation gives: run.nothing_else.
return function(run, request, body, joined, ...)
  local record = run.keys.request .. request.id
  local answer, progress
  if redis.call('EXISTS', run.keys.waiting, run.keys.owed, record, run.keys.abandoned, ...) == 0 then
    run.nobody_waits, run.nothing_else = true, true
  else
    run.nobody_waits = redis.call('EXISTS', run.keys.waiting) == 0
  end
  if not run.nothing_else and redis.call('EXISTS', run.keys.owed, record) > 0 then
    answer = recall(run, request, joined)
    if answer then return answer end
    if not settle.debts(run) then return redis.error_reply('FLEET UNSETTLED') end
    answer, progress = recall(run, request, joined)
    if answer then return answer end
  end
  local reply, state = body(progress)
  if reply.err then return reply end
  serve.parked_calls(run)
  if state == false and not run.nobody_waits then
    answer = recall(run, request, joined)
    if answer then return answer end
  end
  local packed = cmsgpack.pack(reply)
  if state ~= false then requests.remember(run, request, state or 'D', packed) end
  return debts.attach(run, packed)
end
