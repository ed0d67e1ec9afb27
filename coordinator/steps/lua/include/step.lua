-- @include keys
-- @include clock
-- @include events
-- An open step in Redis: one small hash, gone once its outcome is recorded.
--   r run  k key  s status  f attempt (the fence)  q list of the queue  e ready at  b started at  w worker
--   x what few steps have, packed: z context  a arguments  l failures  c crashes  v verdict  g released by
--     t 'g': a gate  y ms after which it expires  p protocol that a worker needs
-- Status: q queued  r running  d waits for its time  h held back by the project's limit  g gate
--   p its run is paused
-- A run, as far as steps go: n name  u creator  o kind ('flows' where it is missing)  s status, 'r' while
--   it goes on, 'p' while it is paused (flows only: none of its steps begins)  p priority  q pool
--   i steps created so far (gateway: the number of the last)  w the worker that has its spec
--   j<fork> arrivals that its join waits for  tr trace that its steps belong to
-- Times are ms. Times and ids in a run's history count from the run's id, where that is a number: small ones
-- take less.

local RARE = {'z', 'a', 'l', 'c', 'v', 'g', 't', 'y', 'p'}
local now = server_time()
local at = whole(now)

-- A key of the project whose keys begin with `prefix`: a worker takes steps of any project.
local function key_in(prefix, key)
  return prefix == P and key or prefix .. string.sub(key, #P + 1)
end

local steps = {}
local fresh, pending = {}, 0 -- steps that this run made ready, by list, and their number; written at its end

-- The open step, or nil. One table per step and script run: what is handed over is written at the end.
local function load_step(id, prefix)
  local key = key_in(prefix or P, K_STEP) .. id
  if steps[key] ~= nil then return steps[key] or nil end
  local v = redis.call('HMGET', key, 'r', 'k', 's', 'f', 'q', 'e', 'b', 'w', 'x')
  if not v[1] then return nil end
  local st = {id = id, r = v[1], k = v[2], s = v[3], f = v[4], q = v[5], e = v[6], b = v[7], w = v[8]}
  if v[9] then
    st.x = cmsgpack.unpack(v[9])
    for _, field in ipairs(RARE) do st[field] = st.x[field] end
  end
  steps[key] = st
  return st
end

-- Writes a step with all that it has; fields that a newer release may have put there stay.
local function save_step(st)
  local rare = st.x
  if rare or st.z or st.a or st.l or st.c or st.v or st.g or st.t then
    rare = rare or {}
    for _, field in ipairs(RARE) do rare[field] = st[field] end
  end
  redis.call('HSET', K_STEP .. st.id, 'r', st.r, 'k', st.k, 's', st.s, 'f', st.f, 'q', st.q, 'e', st.e, 'b', st.b or '',
    'w', st.w or '', unpack(rare and {'x', cmsgpack.pack(rare)} or {}))
end

local runs = {}

-- The run of a step as far as its steps need to know it, or nil; one table per run and script run.
local function load_run(id, prefix)
  local key = key_in(prefix or P, K_RUN) .. id
  if runs[key] then return runs[key] end
  local v = redis.call('HMGET', key, 's', 'p', 'q', 'o', 'u', 'n', 'w', 'tr')
  if not v[1] then return nil end
  runs[key] = {id = id, s = v[1], p = v[2] or nil, q = v[3] or nil, o = v[4] or 'flows', u = v[5] or '', n = v[6] or '',
    w = v[7], tr = v[8] or nil}
  return runs[key]
end

-- Id of the RQ job that points to the present attempt. Ids of runs and steps are a project's own, so those
-- of other projects than the default one begin with its name.
local function job_id(st)
  local project = string.sub(P, 5, -3)
  return (project == 'default' and '' or project .. '-') .. st.r .. '-' .. st.id .. '-' .. st.f
end

local function parse_job(id)
  return string.match(id, '([%w_]+)%-([%w_]+)%-(%d+)$')
end

-- Takes a step off whatever it waits in or runs under.
local function detach(st)
  if st.s == 'r' then redis.call('ZREM', K_STEP_LEASES, st.id)
  elseif st.s == 'q' then
    redis.call('ZREM', K_STEP_QUEUE, st.id)
    for n, other in ipairs(fresh[st.q] or {}) do
      if other == st then
        table.remove(fresh[st.q], n)
        pending = pending - 1
        break
      end
    end
  elseif st.s == 'h' then redis.call('ZREM', K_STEP_BACKLOG, st.id)
  else redis.call('ZREM', K_STEP_TIMERS, st.id) end
end

-- Forgets an open step whose run is gone.
local function discard(st)
  detach(st)
  redis.call('DEL', K_STEP .. st.id)
  steps[K_STEP .. st.id] = false
end
