-- @include pointers
-- A worker takes steps: pointers that wait in its lists, oldest first, and those that this run made ready, which
-- need no pointer then. Each is leased to the worker by the time of this server, and its attempt is the fence
-- that the worker has to show with the outcome. From queues in another Redis nothing can be taken here.

local taken, specs, plain_jobs = {}, {}, {}

-- Leases a step to the worker and adds what it needs to know to `taken`.
local function begin(st, prefix)
  redis.call('ZADD', key_in(prefix, K_STEP_LEASES), whole(now + env.lease), st.id)
  local run, spec = load_run(st.r, prefix), 0
  if run.w ~= env.worker then
    run.w = env.worker
    redis.call('HSET', key_in(prefix, K_RUN) .. st.r, 'w', env.worker)
    spec = #specs + 1
    specs[spec] = redis.call('GET', key_in(prefix, K_RUN_SPEC) .. st.r)
  end
  taken[#taken + 1] = {string.sub(prefix, 5, -3), run.o, st.r, st.id, tonumber(st.f), st.k, st.z or '', st.a or '', run.u,
    run.n, tonumber(st.e), tonumber(st.b), tonumber(st.l or 0), tonumber(st.c or 0), st.v or '', spec, run.tr}
end

-- Whether the worker speaks the protocol that the step needs.
local function supports(st)
  return (st.p or 1) <= env.protocol
end

-- Whether the worker may run the step now. Of suspects (steps that one more lost worker makes poisoned) it runs only
-- one at a time, so that the one that kills workers does not make others poisoned.
local function may_run_now(st, prefix)
  if (st.c or 0) < env.suspect or st.v then return true end
  local key = key_in(prefix, K_STEP_SUSPECTS)
  local other = redis.call('HGET', key, env.worker)
  local has = other and load_step(other, prefix)
  if has and has.s == 'r' and has.w == env.worker then return false end
  redis.call('HSET', key, env.worker, st.id)
  redis.call('EXPIRE', key, 86400)
  return true
end

-- The start of an attempt: now; of a gate when it opened, of a step that is done already when it was executed.
local function start_time(st)
  return (st.t == 'g' or st.v == 'recorded') and st.b or at
end

-- Begins the step that a pointer means, if it still waits for this attempt.
local function claim(id, prefix)
  local _, step, attempt = parse_job(id)
  local st = step and load_step(step, prefix)
  if not st or st.s ~= 'q' or st.f ~= attempt or not load_run(st.r, prefix) then return false end
  redis.call('ZREM', key_in(prefix, K_STEP_QUEUE), step)
  if not supports(st) or not may_run_now(st, prefix) then
    -- It is offered again after a second, to whichever worker then looks first.
    st.s = 'd'
    redis.call('HSET', key_in(prefix, K_STEP) .. step, 's', 'd')
    redis.call('ZADD', key_in(prefix, K_STEP_TIMERS), whole(now + 1000), step)
    return false
  end
  st.s, st.b, st.w = 'r', start_time(st), env.worker
  redis.call('HSET', key_in(prefix, K_STEP) .. step, 's', 'r', 'b', st.b, 'w', env.worker)
  begin(st, prefix)
  return true
end

local function pop(list, want)
  local stale = 0
  while #taken + #plain_jobs < want and stale < STALE do
    local id = redis.call('LPOP', env.rq .. 'queue:' .. list)
    if not id then return end
    local project = project_of(id)
    if project then
      redis.call('DEL', env.rq .. 'job:' .. id)
      if not claim(id, 'fc:{' .. project .. '}:') then stale = stale + 1 end
    elseif is_plain(id) then
      -- A job of plain RQ goes where RQ itself would keep it meanwhile, so that it is not lost.
      redis.call('RPUSH', env.rq .. 'queue:' .. list .. ':intermediate', id)
      plain_jobs[#plain_jobs + 1] = {id, list}
    else
      stale = stale + 1
    end
  end
end

local function take_own(list, want)
  local own = fresh[list]
  while own and own[1] and #taken + #plain_jobs < want and supports(own[1]) and may_run_now(own[1], P) do
    local st = table.remove(own, 1)
    st.s, st.b, st.w = 'r', start_time(st), env.worker
    save_step(st)
    begin(st, P)
  end
end

-- Takes up to `want` steps: of each list in turn first what this run made ready, or, with `turn` = 'queue',
-- first what waits longer. What is left of the former goes to the queue.
local function take(want, turn)
  for _, list in ipairs(env.lists) do
    if turn == 'own' then take_own(list, want) end
    if env.rq ~= '' and #taken + #plain_jobs < want then pop(list, want) end
    take_own(list, want)
  end
  return hand_over()
end

-- What the worker gets: {now, results, taken, plain jobs, whether there is something for the relay}, specs.
local function taken_reply(results, to_relay)
  return {cmsgpack.pack({now, results, taken, plain_jobs, to_relay}), unpack(specs)}
end
