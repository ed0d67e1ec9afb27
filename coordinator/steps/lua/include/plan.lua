-- @include handoff
-- @include history
-- What follows a step (or begins a run), as Python planned it: see Plan and NewStep in model.py.
--   plan = {create {step...}, forks {{name, arrivals}...}, arrive false|{name, step}, complete, error}
--   step = {key, ready|gate|done, pool, priority, delay ms, expires ms, context, arguments}

local function none(text)
  return text ~= '' and text or nil
end

-- Lets a step wait for its release.
local function open_gate(st)
  st.s, st.b, st.t = 'g', at, 'g'
  save_step(st)
  if st.y then redis.call('ZADD', K_STEP_TIMERS, whole(now + st.y), st.id) end
  emit(env.cap, 'step_gate', st.r, 's', st.id, 'n', st.k)
end

-- Creates a step of a run: hands it to the workers, opens the gate, or records that it is done (`again`: pack_row's).
local function create_step(run, new, delay, again)
  local number = redis.call('HINCRBY', K_RUN .. run.id, 'i', 1)
  local priority = new[4] ~= '' and new[4] or run.p
  local st = {id = whole((tonumber(run.id) or 0) + number), r = run.id, k = new[1], f = 1, e = at,
    q = list_of(none(new[3]) or run.q, priority), z = none(new[7]), a = none(new[8])}
  local wait = new[5] + (delay or 0)
  if new[2] == 'done' then
    st.b = st.e
    redis.call('RPUSH', K_HISTORY .. run.id, pack_row(st, 'D', 'null', again))
  elseif new[2] == 'gate' then
    st.y = new[6] > 0 and new[6] or nil
    open_gate(st)
  else
    make_ready_after(st, wait)
  end
end

-- Creates all that a plan says; whether the run goes on afterwards is up to the toolset.
local function follow(run, plan, delay)
  for _, fork in ipairs(plan[2]) do redis.call('HSET', K_RUN .. run.id, 'j' .. fork[1], fork[2]) end
  -- Where the run fails with it, what is done already would be done again by a retry of the flow.
  local again = plan[5] ~= '' and 'n' or nil
  for _, new in ipairs(plan[1]) do create_step(run, new, delay, again) end
  local arrival = plan[3]
  if arrival and redis.call('HINCRBY', K_RUN .. run.id, 'j' .. arrival[1], -1) == 0 then
    redis.call('HDEL', K_RUN .. run.id, 'j' .. arrival[1])
    create_step(run, arrival[2])
  end
end
