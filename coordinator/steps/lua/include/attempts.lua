-- @include handoff
-- How attempts end that are not the step's end: another one follows, under a higher fence.

-- The step, if `attempt` of it is running; else nil: the report comes late, or a second time.
local function running(id, attempt)
  local st = load_step(id)
  return st and st.s == 'r' and tonumber(st.f) == attempt and st or nil
end

-- Another attempt at `at`; now, if that is not ahead.
local function next_attempt(st, now, at)
  detach(st)
  st.f = whole(st.f + 1)
  if st.b and st.t ~= 'g' then drop_fields(st, 'b', 'w') end
  if at > now then
    st.s, st.e = 'd', whole(at)
    save_step(st)
    redis.call('ZADD', K_STEP_TIMERS, st.e, st.id)
  else
    make_ready(st, now)
  end
end

-- The attempt failed, and the step's retries are not used up.
local function fail_attempt(st, now, delay)
  st.l = whole((st.l or 0) + 1)
  emit(E.cap, 'step_retry', st.r, 's', st.id, 'n', st.k, 'f', st.f)
  next_attempt(st, now, now + delay)
end

-- The worker could not or would not execute it: it drains, or does not know how.
local function give_back(st, now, delay)
  next_attempt(st, now, now + delay)
end

-- The worker was lost. The `most`th time the step is taken for what kills workers.
local function crash_attempt(st, now, most)
  st.c = whole((st.c or 0) + 1)
  if tonumber(st.c) >= most then st.v = 'poisoned' end
  emit(E.cap, 'step_lost', st.r, 's', st.id, 'n', st.k, 'f', st.f)
  next_attempt(st, now, now)
end
