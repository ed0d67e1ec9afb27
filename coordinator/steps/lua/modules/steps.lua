-- An open step in Redis: one small hash, gone once its outcome is recorded.
--   r run  k key  s status  f attempt (the fence)  q list of the queue  e ready at  b started at  w worker
--   x what few steps have, packed: z context  a arguments  l failures  c crashes  v verdict  g released by
--     (and after a NUL how)  m those who were asked to release it and have not  t 'g': a gate  y ms after which it
--     expires  p protocol that a worker needs  h list of its pool, while q is that of one worker
-- Status: q queued  r running  d waits for its time  h held back by the project's limit  g gate
--   p its flow is paused
-- step_gates has the gates of flows that wait, scored by since when.
-- The owner of a step is the flow or instance that it belongs to (elsewhere: its run; keys.run), a hash with
--   n name  u creator  o kind ('flows' where it is missing)  s status, 'r' while it goes on, 'p' while it is paused
--     (flows only: none of its steps begins)  p priority  q pool
--   i steps created so far (gateway: the number of the last)  w the worker that has its spec
--   ro roles that may approve its gates, as JSON (flows only; missing: none)
--   j<fork> arrivals that its join waits for  tr trace that its steps belong to
-- Times are ms. Times and ids in an owner's history count from its id, where that is a number: small ones take less.
-- owns: step step_leases step_queue step_timers step_backlog step_gates
local clock = require 'clock'

local steps = {}

local RARE = {'z', 'a', 'l', 'c', 'v', 'g', 'm', 't', 'y', 'p', 'h'}

-- A key of the project whose keys begin with `prefix`: a worker takes steps of any project.
function steps.key_in(run, prefix, key)
  return prefix == run.keys.prefix and key or prefix .. string.sub(key, #run.keys.prefix + 1)
end

-- The open step, or nil. One table per step and call: what is handed over is written at the end.
function steps.load(run, id, prefix)
  local key = steps.key_in(run, prefix or run.keys.prefix, run.keys.step) .. id
  if run.steps[key] ~= nil then return run.steps[key] or nil end
  local v = redis.call('HMGET', key, 'r', 'k', 's', 'f', 'q', 'e', 'b', 'w', 'x')
  if not v[1] then return nil end
  local st = {id = id, r = v[1], k = v[2], s = v[3], f = v[4], q = v[5], e = v[6], b = v[7], w = v[8]}
  if v[9] then
    st.x = cmsgpack.unpack(v[9])
    for _, field in ipairs(RARE) do st[field] = st.x[field] end
  end
  run.steps[key] = st
  return st
end

-- Writes a step with all that it has; fields that a newer release may have put there stay.
function steps.save(run, st)
  local rare = st.x
  if rare or st.z or st.a or st.l or st.c or st.v or st.g or st.m or st.t or st.h then
    rare = rare or {}
    for _, field in ipairs(RARE) do rare[field] = st[field] end
  end
  redis.call('HSET', run.keys.step .. st.id, 'r', st.r, 'k', st.k, 's', st.s, 'f', st.f, 'q', st.q, 'e', st.e,
    'b', st.b or '', 'w', st.w or '', unpack(rare and {'x', cmsgpack.pack(rare)} or {}))
end

-- The fields of an owner that its steps need, or nil; one table per owner and call.
function steps.load_owner(run, id, prefix)
  local key = steps.key_in(run, prefix or run.keys.prefix, run.keys.run) .. id
  if run.owners[key] then return run.owners[key] end
  local v = redis.call('HMGET', key, 's', 'p', 'q', 'o', 'u', 'n', 'w', 'tr', 'ro')
  if not v[1] then return nil end
  run.owners[key] = {id = id, s = v[1], p = v[2] or nil, q = v[3] or nil, o = v[4] or 'flows', u = v[5] or '',
    n = v[6] or '', w = v[7], tr = v[8] or nil, ro = v[9] or nil}
  return run.owners[key]
end

-- Who may hear of a flow, for its events: who created it (u), and roles that may approve its gates (ro).
function steps.audience(owner)
  if owner.ro then return 'u', owner.u or '', 'ro', owner.ro end
  return 'u', owner.u or ''
end

-- Id of the RQ job that points to the present attempt. Ids of owners and steps are a project's own, so those of other
-- projects than the default one begin with its name.
function steps.job_id(run, st)
  local project = run.project
  return (project == 'default' and '' or project .. '-') .. st.r .. '-' .. st.id .. '-' .. st.f
end

-- Owner, step and attempt that a job points to; nil: it is no pointer.
function steps.parse_job(id)
  return string.match(id, '([%w_]+)%-([%w_]+)%-(%d+)$')
end

-- Writes some fields of a step of the project whose keys begin with `prefix`.
function steps.set(run, id, prefix, ...)
  redis.call('HSET', steps.key_in(run, prefix, run.keys.step) .. id, ...)
end

-- Puts a step into the queue, or takes it out.
function steps.enqueue(run, id)
  redis.call('ZADD', run.keys.step_queue, run.at, id)
end

function steps.dequeue(run, id, prefix)
  redis.call('ZREM', steps.key_in(run, prefix, run.keys.step_queue), id)
end

-- The lease of a step ends at a time (ms), or is over (nil).
function steps.lease(run, id, prefix, time)
  local key = steps.key_in(run, prefix, run.keys.step_leases)
  if time then redis.call('ZADD', key, clock.whole(time), id) else redis.call('ZREM', key, id) end
end

-- Something is due for a step at a time (ms), or not any more (nil).
function steps.set_timer(run, id, prefix, time)
  local key = steps.key_in(run, prefix, run.keys.step_timers)
  if time then redis.call('ZADD', key, clock.whole(time), id) else redis.call('ZREM', key, id) end
end

-- Lists a gate as waiting, or not any more.
function steps.list_gate(run, id, waits)
  if waits then redis.call('ZADD', run.keys.step_gates, run.at, id) else redis.call('ZREM', run.keys.step_gates, id) end
end

-- Holds a step back, and takes the first one that is held back: its id, or nil.
function steps.hold(run, id, score)
  redis.call('ZADD', run.keys.step_backlog, score, id)
end

function steps.next_held(run)
  return redis.call('ZPOPMIN', run.keys.step_backlog)[1]
end

-- Removes a step from its queue, timer, backlog or lease.
function steps.detach(run, st)
  if st.s == 'r' then
    steps.lease(run, st.id, run.keys.prefix)
  elseif st.s == 'q' then
    steps.dequeue(run, st.id, run.keys.prefix)
    for n, other in ipairs(run.fresh[st.q] or {}) do
      if other == st then
        table.remove(run.fresh[st.q], n)
        run.pending = run.pending - 1
        break
      end
    end
  elseif st.s == 'h' then
    redis.call('ZREM', run.keys.step_backlog, st.id)
  else
    steps.set_timer(run, st.id, run.keys.prefix)
    if st.s == 'g' then steps.list_gate(run, st.id, false) end
  end
end

-- Forgets an open step.
function steps.discard(run, st)
  steps.detach(run, st)
  redis.call('DEL', run.keys.step .. st.id)
  run.steps[run.keys.step .. st.id] = false
end

return steps
