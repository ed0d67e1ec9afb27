-- The history of an owner of steps (steps.lua): its finished steps in order of their end. Long results are kept apart,
-- so that reading the history is fast whatever steps have returned.
-- owns: history results
local clock = require 'clock'
local steps = require 'steps'

local history = {}

local LONG_RESULT = 1000 -- bytes; a longer one is in results under the step's number, and the entry has its length

-- One entry of the history: step, key, status (D done, F failed, X cancelled), attempt, ready, started,
-- ended, result as JSON (its length, if it is long), released by, and what it takes to run the step again.
local function pack_row(run, st, status, result, again)
  local base = tonumber(st.r) or 0
  local row = {st.id - base, st.k, status, tonumber(st.f), st.e - base, tonumber(st.b) and st.b - base or false,
    run.now - base, result}
  if st.g or again then row[9] = st.g or false end
  if again then row[10] = {q = st.h or st.q, z = st.z, a = st.a, t = st.t, y = st.y, u = again} end
  return cmsgpack.pack(row)
end

-- Adds an entry for a step.
function history.append(run, st, status, result, again)
  redis.call('RPUSH', run.keys.history .. st.r, pack_row(run, st, status, result, again))
end

-- Replaces the entries of an owner by these (packed).
function history.replace(run, id, rows)
  redis.call('DEL', run.keys.history .. id)
  if rows[1] then redis.call('RPUSH', run.keys.history .. id, unpack(rows)) end
end

-- Deletes the long result of a step, by its number.
function history.drop_result(run, id, number)
  redis.call('HDEL', run.keys.results .. id, number)
end

-- Deletes the history of an owner.
function history.forget(run, id)
  redis.call('UNLINK', run.keys.history .. id, run.keys.results .. id)
end

-- Ends an open step: into the history, and out of everything else.
function history.record(run, st, status, result, again)
  if result and #result > LONG_RESULT then
    redis.call('HSET', run.keys.results .. st.r, clock.whole(st.id - (tonumber(st.r) or 0)), result)
    -- Of one that was cut (Cut in results.py) the length of the whole.
    local whole = tonumber(string.match(result, '^{"truncated":true,"bytes":(%d+),"beginning"') or 0)
    result = math.max(#result, math.min(whole, 2 ^ 53))
  end
  history.append(run, st, status, result, again)
  steps.discard(run, st)
end

-- Ends an open step of a flow that has ended; one that was done before the flow ran again stays so.
function history.cancel(run, st)
  if st.v == 'recorded' then history.record(run, st, 'D', st.a, 'o') else history.record(run, st, 'X', false, 'x') end
end

return history
