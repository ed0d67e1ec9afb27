-- @include step
-- Steps that are ready go to the workers. RQ's job is a pointer [project, run, step, attempt]; it is written
-- here in RQ's own form where the queue is in this Redis (env.rq is RQ's prefix), else the project's outbox
-- gets its id and list, and a relay writes it. What a worker takes in the very script that made it ready
-- needs no pointer (take.lua): nobody could have seen it.
--
-- env, packed by the caller: rq  limit (steps of the project queued and running, 0: any)  cap (of events)
--   iso (what time it is, for RQ's tools)  protocol; of a worker also  worker  lease  lists  suspect (crashes)

local env = cmsgpack.unpack(engine)
local BELLS = 128 -- each pointer rings the bell once; the most rings that are kept while nobody listens

-- 'fleet-steps', 'fleet-steps-gpu', 'fleet-steps-gpu.high': one list per pool and priority.
local function list_of(pool, priority)
  local list = 'fleet-steps' .. (pool and pool ~= 'default' and '-' .. pool or '')
  return list .. ((priority == 'high' or priority == 'low') and '.' .. priority or '')
end

local function backlog_score(st)
  local class = string.sub(st.q, -5) == '.high' and 0 or string.sub(st.q, -4) == '.low' and 2 or 1
  return whole(class * 4398046511104 + tonumber(st.e)) -- 2^42 above any time
end

local function at_limit()
  if env.limit == 0 then return false end
  return redis.call('ZCARD', K_STEP_QUEUE) + redis.call('ZCARD', K_STEP_LEASES) + pending >= env.limit
end

-- Lets a step be executed: now, or when the project's limit allows it. Of a paused run, which only those can be whose
-- id is a number, not before the run is resumed, unless `forced`.
local function make_ready(st, forced)
  st.e = at
  local run = not forced and tonumber(st.r) and load_run(st.r)
  if run and run.s == 'p' then
    st.s = 'p'
    save_step(st)
    return
  end
  if not st.v and at_limit() then
    st.s = 'h'
    save_step(st)
    redis.call('ZADD', K_STEP_BACKLOG, backlog_score(st), st.id)
    return
  end
  st.s = 'q'
  steps[K_STEP .. st.id] = st -- so that whoever ends it in this run finds it
  fresh[st.q] = fresh[st.q] or {}
  table.insert(fresh[st.q], st)
  pending = pending + 1
end

-- The same, once `delay` ms have passed.
local function make_ready_after(st, delay)
  if delay > 0 then
    st.s, st.e = 'd', whole(now + delay)
    save_step(st)
    redis.call('ZADD', K_STEP_TIMERS, st.e, st.id)
  else
    make_ready(st)
  end
end

-- Tells the worker that runs a step to stop it; where the queues are elsewhere, it finds out by its lease.
local function interrupt(st)
  if st.s == 'r' and st.w and env.rq ~= '' then
    redis.call('PUBLISH', env.rq .. 'pubsub:' .. st.w, '{"command": "stop-job", "job_id": "' .. job_id(st) .. '"}')
  end
end

local REFILL = 1000 -- the most steps that one run releases

-- After steps have ended: releases held-back steps as far as the limit allows. Without a limit there are none, unless
-- it was just removed: `always` looks for them all the same.
local function refill(always)
  if env.limit == 0 and not always then return end
  for _ = 1, REFILL do
    if at_limit() then return end
    local first = redis.call('ZPOPMIN', K_STEP_BACKLOG)
    if not first[1] then return end
    local st = load_step(first[1])
    if st and st.s == 'h' then make_ready(st) end
  end
end

local function push_job(id, list, project)
  local run, step, attempt = parse_job(id)
  redis.call('HSET', env.rq .. 'job:' .. id, 'origin', list, 'status', 'queued', 'created_at', env.iso, 'enqueued_at',
    env.iso, 'timeout', -1, 'result_ttl', 0, 'failure_ttl', 60, 'description', 'step ' .. id, 'fleet', project,
    'data', '["workers.steps.run", null, ["' .. project .. '", "' .. run .. '", "' .. step .. '", ' .. attempt .. '], {}]')
  local key, bell = env.rq .. 'queue:' .. list, env.rq .. 'bell:' .. list
  local waiting = redis.call('RPUSH', key, id)
  if waiting == 1 then redis.call('SADD', env.rq .. 'queues', key) end
  -- While more pointers wait than that, no worker with a free slot waits for a bell.
  if waiting <= BELLS and redis.call('LLEN', bell) < BELLS then redis.call('RPUSH', bell, 1) end
end

-- Writes the pointers of all steps that this run made ready and nobody took: once, at its end. Returns whether any
-- are in the outbox, for the relay.
local function hand_over()
  local project, to_relay = string.sub(P, 5, -3), false
  for list, ready in pairs(fresh) do
    for _, st in ipairs(ready) do
      save_step(st)
      redis.call('ZADD', K_STEP_QUEUE, at, st.id)
      if env.rq ~= '' then
        push_job(job_id(st), list, project)
      else
        redis.call('RPUSH', K_OUTBOX, list .. ' ' .. job_id(st))
        to_relay = true
      end
    end
  end
  return to_relay
end
