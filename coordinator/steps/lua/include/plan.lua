-- @include handoff
-- @include history
-- What follows a step (or begins a run), as Python planned it: see Plan and NewStep in model.py.
--   plan = {create {step...}, forks {{name, arrivals}...}, arrive false|{name, step}, complete, error}
--   step = {key, ready|gate|done, pool, priority, delay ms, expires ms, context, arguments}

-- The text; nil if it is empty.
local function non_empty(text)
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
  local key, state, pool, priority, delay_ms, expires_ms, context, arguments = unpack(new)
  local number = redis.call('HINCRBY', K_RUN .. run.id, 'i', 1)
  local st = {id = whole((tonumber(run.id) or 0) + number), r = run.id, k = key, f = 1, e = at,
    q = list_of(non_empty(pool) or run.q, non_empty(priority) or run.p), z = non_empty(context),
    a = non_empty(arguments)}
  if state == 'done' then
    st.b = st.e
    redis.call('RPUSH', K_HISTORY .. run.id, pack_row(st, 'D', 'null', again))
  elseif state == 'gate' then
    st.y = expires_ms > 0 and expires_ms or nil
    open_gate(st)
  else
    make_ready_after(st, delay_ms + (delay or 0))
  end
end

-- Creates all that a plan says; whether the run goes on afterwards is up to the toolset.
local function follow(run, plan, delay)
  local create, forks, arrival, _, error = unpack(plan, 1, 5)
  for _, fork in ipairs(forks) do
    local counter, arrivals = unpack(fork)
    redis.call('HSET', K_RUN .. run.id, 'j' .. counter, arrivals)
  end
  -- Where the run fails with it, what is done already would be done again by a retry of the flow.
  local again = error ~= '' and 'n' or nil
  for _, new in ipairs(create) do create_step(run, new, delay, again) end
  if not arrival then return end
  local counter, joined = unpack(arrival)
  if redis.call('HINCRBY', K_RUN .. run.id, 'j' .. counter, -1) == 0 then
    redis.call('HDEL', K_RUN .. run.id, 'j' .. counter)
    create_step(run, joined)
  end
end
