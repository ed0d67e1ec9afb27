-- The protocol of an operation that changes items; replaces the store's change.lua.
local apart_sets = require 'apart_sets'
local children = require 'children'
local debts = require 'debts'
local requests = require 'requests'
local serve = require 'serve'
local settle = require 'settle'

-- The answer to the request without a change: the recorded reply, or an error reply if the request id was used for
-- another call. Else nil, and the progress of a long call with this request (packed), if any.
local function recall(run, request, joined)
  local stored, state = requests.recall(run, request)
  if not stored then return state end
  if state == 'P' then return nil, stored end
  if joined then joined(stored, state) end
  return {stored}
end

-- In this order, in one atomic step:
--   1. An answered request gets the same answer again, whatever has happened since. This comes first, because a retry
--      must not have any second effect. `joined(stored, state)`, if the operation passes it, is called for each such
--      retry.
--   2. Debts of earlier operations are settled (settle.lua), so `body` sees counts and indexes as if these had
--      done everything at once. If there are too many, nothing else happens in this step: the caller retries. Settling
--      may serve a parked call with this same request, so the record is read once more.
--   3. `body` makes the change. It returns the reply, a table; an error reply means that nothing was changed, and is
--      not recorded, so the call can be retried once the reason is gone. A second value is the state letter of the
--      record (D by default), or `false`: the reply is not recorded. A reply recorded with 'P' is the progress of a
--      call of several steps: 1 lets it pass, and `body` gets it (packed, else nil) to continue.
--   4. Parents whose children have ended are placed (children.lua). Newly ready items go to parked calls that
--      wait for them (serve.lua): after the change, which makes them ready, and in the same step, so that no
--      other call can take them first. A call that `body` has just parked may get one of them: then its answer is the
--      record.
--   5. The reply is recorded, after everything it depends on.
-- In the usual case one command shows that 1, 2 and 4 have nothing to do, and that none of the further keys that the
-- operation names exist: run.nothing_else. With sets of items that are apart (apart.lua) it takes two commands.
return function(run, request, body, joined, ...)
  local record = run.keys.request .. request.id
  local answer, progress
  local there = redis.call('EXISTS', run.keys.waiting, run.keys.owed, record, ...)
  run.has_sets = there == 1 and run.looked_for_sets and apart_sets.look(run) or nil
  if there == (run.has_sets and 1 or 0) then
    run.nobody_waits, run.nothing_else = true, true
  else
    local found = redis.call('EXISTS', run.keys.waiting, run.keys.owed, record)
    run.nobody_waits = found == 0 or redis.call('EXISTS', run.keys.waiting) == 0
    if found > (run.nobody_waits and 0 or 1) then
      answer = recall(run, request, joined)
      if answer then return answer end
      if not settle.debts(run) then return redis.error_reply('FLEET UNSETTLED') end
      answer, progress = recall(run, request, joined)
      if answer then return answer end
    end
  end
  local reply, state = body(progress)
  if reply.err then return reply end
  children.settle(run)
  serve.parked_calls(run)
  if state == false and not run.nobody_waits then
    answer = recall(run, request, joined)
    if answer then return answer end
  end
  local packed = cmsgpack.pack(reply)
  if state ~= false then requests.remember(run, request, state or 'D', packed) end
  return debts.attach(run, packed)
end
