-- Steps that are ready go to the workers. RQ's job is a pointer [project, owner, step, attempt]; it is written here in
-- RQ's own form where the queue is in this Redis (run.env.rq is RQ's prefix), else the project's outbox gets its id and
-- list, and a relay writes it. What a worker takes in the very call that made it ready needs no pointer (taking.lua):
-- nobody could have seen it.
-- owns: outbox rq
local clock = require 'clock'
local pointers = require 'pointers'
local steps = require 'steps'

local handoff = {}

local BELLS_MAX = 128 -- each pointer rings the bell once; the most rings that are kept while nobody listens
local REFILL_MAX = 1000 -- the most held-back steps that one call releases

-- 'fleet-steps', 'fleet-steps-gpu', 'fleet-steps-gpu.high': one list per pool and priority.
function handoff.list_of(pool, priority)
  local list = 'fleet-steps' .. (pool and pool ~= 'default' and '-' .. pool or '')
  return list .. ((priority == 'high' or priority == 'low') and '.' .. priority or '')
end

local function backlog_score(st)
  local class = string.sub(st.q, -5) == '.high' and 0 or string.sub(st.q, -4) == '.low' and 2 or 1
  return clock.whole(class * 4398046511104 + tonumber(st.e)) -- 2^42 above any time
end

local function at_limit(run)
  if run.env.limit == 0 then return false end
  local queued, running = redis.call('ZCARD', run.keys.step_queue), redis.call('ZCARD', run.keys.step_leases)
  return queued + running + run.pending >= run.env.limit
end

-- Lets a step be executed: now, or when the project's limit allows it. Of a paused flow (flows have numbers as ids) not
-- before it is resumed, unless `forced`.
function handoff.make_ready(run, st, forced)
  st.e = run.at
  local owner = not forced and tonumber(st.r) and steps.load_owner(run, st.r)
  if owner and owner.s == 'p' then
    st.s = 'p'
    steps.save(run, st)
    return
  end
  if not st.v and at_limit(run) then
    st.s = 'h'
    steps.save(run, st)
    steps.hold(run, st.id, backlog_score(st))
    return
  end
  st.s = 'q'
  run.steps[run.keys.step .. st.id] = st -- so that code that ends it in this call finds it
  run.fresh[st.q] = run.fresh[st.q] or {}
  table.insert(run.fresh[st.q], st)
  run.pending = run.pending + 1
end

-- The same, once `delay` ms have passed.
function handoff.make_ready_after(run, st, delay)
  if delay > 0 then
    st.s, st.e = 'd', clock.whole(run.now + delay)
    steps.save(run, st)
    steps.set_timer(run, st.id, run.keys.prefix, st.e)
  else
    handoff.make_ready(run, st)
  end
end

-- Tells the worker that runs a step to stop it; where the queues are elsewhere, it finds out by its lease.
function handoff.interrupt(run, st)
  if st.s == 'r' and st.w and run.env.rq ~= '' then
    local message = '{"command": "stop-job", "job_id": "' .. steps.job_id(run, st) .. '"}'
    redis.call('PUBLISH', run.env.rq .. 'pubsub:' .. st.w, message)
  end
end

-- After steps have ended: releases held-back steps as far as the limit allows. Without a limit there are none, unless
-- it was just removed: `always` looks for them anyway.
function handoff.refill(run, always)
  if run.env.limit == 0 and not always then return end
  for _ = 1, REFILL_MAX do
    if at_limit(run) then return end
    local first = steps.next_held(run)
    if not first then return end
    local st = steps.load(run, first)
    if st and st.s == 'h' then handoff.make_ready(run, st) end
  end
end

-- Writes the job `id` as RQ would, and puts it into the queue `list`.
function handoff.push_job(run, id, list, project)
  local owner, step, attempt = steps.parse_job(id)
  local call = '["workers.steps.run", null, ["' .. project .. '", "' .. owner .. '", "' .. step .. '", ' .. attempt
    .. '], {}]'
  redis.call('HSET', run.env.rq .. 'job:' .. id, 'origin', list, 'status', 'queued', 'created_at', run.env.iso,
    'enqueued_at', run.env.iso, 'timeout', -1, 'result_ttl', 0, 'failure_ttl', 60, 'description', 'step ' .. id,
    'fleet', project, 'data', call)
  local key, bell = run.env.rq .. 'queue:' .. list, run.env.rq .. 'bell:' .. list
  local waiting = redis.call('RPUSH', key, id)
  -- While more pointers wait than that, no worker with a free slot waits for a bell.
  if waiting <= BELLS_MAX and redis.call('LLEN', bell) < BELLS_MAX then redis.call('RPUSH', bell, 1) end
  local own = pointers.own(list, key, bell, run.env.rq .. 'job:' .. id)
  if waiting == 1 and not own then redis.call('SADD', run.env.rq .. 'queues', key) end
end

-- Writes the pointers of all steps that this call made ready and nobody took: once, at its end. Returns whether any
-- are in the outbox, for the relay.
function handoff.hand_over(run)
  local to_relay = false
  for list, ready in pairs(run.fresh) do
    for _, st in ipairs(ready) do
      steps.save(run, st)
      steps.enqueue(run, st.id)
      if run.env.rq ~= '' then
        handoff.push_job(run, steps.job_id(run, st), list, run.project)
      else
        redis.call('RPUSH', run.keys.outbox, list .. ' ' .. steps.job_id(run, st))
        to_relay = true
      end
    end
  end
  return to_relay
end

return handoff
