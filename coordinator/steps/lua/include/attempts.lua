-- @include handoff
-- How attempts end that are not the step's end: another one follows, under a higher fence.

-- The step, if the calling worker runs `attempt` of it; else nil: the report comes late, or a second time. The number
-- alone would not do where a server has lost its last writes: it gives numbers again that others have.
local function running(id, attempt)
  local st = load_step(id)
  return st and st.s == 'r' and tonumber(st.f) == attempt and st.w == env.worker and st or nil
end

-- Another attempt after `delay` ms.
local function next_attempt(st, delay)
  detach(st)
  st.f, st.w = whole(st.f + 1), nil
  if st.t ~= 'g' and st.v ~= 'recorded' then st.b = nil end
  make_ready_after(st, delay)
end

-- The attempt failed, and the step's retries are not used up.
local function fail_attempt(st, delay)
  st.l = (st.l or 0) + 1
  emit(env.cap, 'step_retry', st.r, 's', st.id, 'n', st.k, 'f', st.f)
  next_attempt(st, delay)
end

-- The worker could not or would not execute it: it drains, or does not know how.
local function give_back(st, delay)
  next_attempt(st, delay)
end

-- The worker was lost. The `most`th time the step is taken for what kills workers.
local function crash_attempt(st, most)
  st.c = (st.c or 0) + 1
  -- What is done already is not executed, so it kills nobody.
  if st.c >= most and st.v ~= 'recorded' then st.v = 'poisoned' end
  emit(env.cap, 'step_lost', st.r, 's', st.id, 'n', st.k, 'f', st.f)
  next_attempt(st, 0)
end
