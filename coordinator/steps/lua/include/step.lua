-- @include keys
-- @include clock
-- @include events
-- An open step in Redis: one small hash, gone once its outcome is recorded.
--   r run  k key  s status  f attempt (the fence)  q list of the queue  e ready at  b started at
--   w worker  z context  a arguments  l failures  c crashes  v verdict  g released by  t 'g': a gate
--   p protocol that a worker needs  (all times in ms)
-- Status: q queued  r running  d waits for its time  h held back by the project's limit  g gate
-- A run, as far as steps go: n name  u creator  o room ('flows' where it is missing)  s status, 'r' while
--   it goes on  p priority  q pool  i steps created so far  w the worker that has its spec
--   j<fork> arrivals that its join waits for
-- Times and ids in a run's history count from the run's id, where that is a number: small ones take less.

local STEP_FIELDS = {'r', 'k', 's', 'f', 'q', 'e', 'b', 'z', 'a', 'l', 'c', 'v', 'g', 't', 'p', 'w'}

-- A key of the project whose keys begin with `prefix`: a worker takes steps of any project.
local function key_in(prefix, key)
  return prefix == P and key or prefix .. string.sub(key, #P + 1)
end

-- The open step, or nil.
local function load_step(id, prefix)
  local v = redis.call('HMGET', key_in(prefix or P, K_STEP) .. id, unpack(STEP_FIELDS))
  if not v[1] then return nil end
  local st = {id = id}
  for n, field in ipairs(STEP_FIELDS) do st[field] = v[n] or nil end
  return st
end

-- Writes a step with all that it has; fields that a newer release may have put there stay.
local function save_step(st)
  local args = {}
  for _, field in ipairs(STEP_FIELDS) do
    if st[field] then
      args[#args + 1] = field
      args[#args + 1] = st[field]
    end
  end
  redis.call('HSET', K_STEP .. st.id, unpack(args))
end

local function drop_fields(st, ...)
  for _, field in ipairs({...}) do st[field] = nil end
  redis.call('HDEL', K_STEP .. st.id, ...)
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
  elseif st.s == 'q' then redis.call('ZREM', K_STEP_QUEUE, st.id)
  elseif st.s == 'h' then redis.call('ZREM', K_STEP_BACKLOG, st.id)
  else redis.call('ZREM', K_STEP_TIMERS, st.id) end
end

-- One entry of a run's history: step, key, status (D done, F failed, X cancelled), attempt, ready, started,
-- ended, result as JSON, released by, and what it takes to run the step again.
local function pack_row(st, status, result, now, again)
  local base = tonumber(st.r) or 0
  local row = {st.id - base, st.k, status, tonumber(st.f), st.e - base, st.b and st.b - base or false, now - base, result}
  if st.g or again then row[9] = st.g or false end
  if again then row[10] = {q = st.q, z = st.z, a = st.a, t = st.t, u = again} end
  return cmsgpack.pack(row)
end

-- Ends an open step: into the history, and out of everything else.
local function record(st, status, result, now, again)
  detach(st)
  redis.call('RPUSH', K_HISTORY .. st.r, pack_row(st, status, result, now, again))
  redis.call('DEL', K_STEP .. st.id)
end
