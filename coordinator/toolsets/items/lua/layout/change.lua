-- The protocol of an operation that changes items; replaces the store's change.lua. `options` may have
--   looks_for  a set of keys (absence.lua), waiting and owed among them: what the operation else would read
--   joined     a function that is called as joined(stored, state) for each retry of an answered request
-- owns: none
local absence = require 'absence'
local children = require 'children'
local debts = require 'debts'
local first_sets = require 'first_sets'
local requests = require 'requests'
local serve = require 'serve'
local settle = require 'settle'

local USUAL = absence.of_keys({'waiting', 'owed', 'paused'})

-- The answer to the request without a change: the recorded reply, or an error reply if the request id was used for
-- another call. Else nil, and the progress of a long call with this request (packed), if any.
local function recall(run, request, joined)
  local stored, state = requests.recall(run, request)
  if not stored then return state end
  if state == 'P' then return nil, stored end
  if joined then joined(stored, state) end
  return {stored}
end

-- Notes which of the keys to look for do not exist. Returns whether there is a record of the request, or a debt. In the
-- usual case one command shows that there are none of them, and no calls that wait; with sets of items that are apart
-- (apart.lua), and with keys that are there often, it takes one more.
local function are_there(run, record, looks_for)
  local waiting, paused = run.keys.waiting, run.keys.paused
  local present, absent, often, at = {}, {}, looks_for.often or {}, 1
  local there = redis.call('EXISTS', record, unpack(looks_for))
  if there > 0 and looks_for[run.keys.apart] and first_sets.look(run) then present[1] = run.keys.apart end
  local some = there > #present and often[1] and redis.call('EXISTS', unpack(often))
  while some and often[at] do -- EXISTS counts a key as many times as it is named
    if math.floor(some / at) % 2 == 1 then present[#present + 1] = often[at] else absent[often[at]] = true end
    at = 2 * at
  end
  if there == #present then
    run.absent = looks_for
    if there > 0 then absence.forget(run, present) end
    return false
  end
  local found = redis.call('EXISTS', waiting, run.keys.owed, record, paused, paused, paused, paused)
  absent[paused] = found < 4 or nil
  found = found % 4
  local parked = found > 0 and redis.call('EXISTS', waiting) == 1
  absent[waiting] = not parked or nil
  run.absent = absent
  return found > (parked and 1 or 0)
end

-- In this order, in one atomic step:
--   1. An answered request gets the same answer again, whatever has happened since. This comes first, because a retry
--      must not have any second effect. It is passed to the option `joined`.
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
return function(run, request, options, body)
  local record, looks_for = run.keys.request .. request.id, options.looks_for or USUAL(run.keys.prefix)
  local answer, progress
  if are_there(run, record, looks_for) then
    answer = recall(run, request, options.joined)
    if answer then return answer end
    if not settle.debts(run) then return redis.error_reply('FLEET UNSETTLED') end
    answer, progress = recall(run, request, options.joined)
    if answer then return answer end
  end
  local reply, state = body(progress)
  if reply.err then return reply end
  children.settle(run)
  local parked = not run.absent[run.keys.waiting]
  if parked then serve.parked_calls(run) end
  if parked and (state == false or state == 'P') then
    answer = recall(run, request, options.joined)
    if answer then return answer end
  end
  local packed = cmsgpack.pack(reply)
  if state ~= false then requests.remember(run, request, state or 'D', packed) end
  return debts.attach(run, packed)
end
