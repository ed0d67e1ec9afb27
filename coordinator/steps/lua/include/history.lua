-- @include step
-- The history of a run: its finished steps in order of their end, and beside it what is long, so that going through
-- the history takes little time whatever steps have returned.

local LONG_RESULT = 1000 -- bytes; a longer one is in K_RESULTS under the step's number, and the entry has its length

-- One entry of a run's history: step, key, status (D done, F failed, X cancelled), attempt, ready, started,
-- ended, result as JSON (its length, if it is long), released by, and what it takes to run the step again.
local function pack_row(st, status, result, again)
  local base = tonumber(st.r) or 0
  local row = {st.id - base, st.k, status, tonumber(st.f), st.e - base, tonumber(st.b) and st.b - base or false,
    now - base, result}
  if st.g or again then row[9] = st.g or false end
  if again then row[10] = {q = st.q, z = st.z, a = st.a, t = st.t, y = st.y, u = again} end
  return cmsgpack.pack(row)
end

-- Ends an open step: into the history, and out of everything else.
local function record(st, status, result, again)
  if result and #result > LONG_RESULT then
    redis.call('HSET', K_RESULTS .. st.r, whole(st.id - (tonumber(st.r) or 0)), result)
    result = #result
  end
  redis.call('RPUSH', K_HISTORY .. st.r, pack_row(st, status, result, again))
  discard(st)
end

-- Ends an open step of a flow that has ended; one that was done before the flow ran again stays so.
local function cancel_step(st)
  if st.v == 'recorded' then record(st, 'D', st.a, 'o') else record(st, 'X', false, 'x') end
end
