-- A worker takes steps: pointers that wait in its lists, oldest first, and those that this call made ready, which
-- need no pointer then. Each is leased to the worker by the time of this server, and its attempt is the fence
-- that the worker has to show with the outcome. From queues in another Redis nothing can be taken here.
-- owns: step_suspects rq
local fences = require 'fences'
local handoff = require 'handoff'
local owners = require 'owners'
local pointers = require 'pointers'
local step_events = require 'step_events'
local steps = require 'steps'

local USELESS_MAX = pointers.USELESS_MAX

local taking = {}

-- Leases a step to the worker and adds what it needs to know to run.taken.
local function begin(run, st, prefix)
  local env = run.env
  steps.lease(run, st.id, prefix, run.now + env.lease)
  local owner, spec = steps.load_owner(run, st.r, prefix), 0
  if owner.w ~= env.worker then
    owner.w = env.worker
    owners.set_worker(run, st.r, prefix, env.worker)
    spec = #run.specs + 1
    run.specs[spec] = redis.call('GET', steps.key_in(run, prefix, run.keys.run_spec) .. st.r)
  end
  step_events.begin(run, st, owner, prefix)
  run.taken[#run.taken + 1] = {string.sub(prefix, 5, -3), owner.o, st.r, st.id, tonumber(st.f), st.k, st.z or '',
    st.a or '', owner.u, owner.n, tonumber(st.e), tonumber(st.b), tonumber(st.l or 0), tonumber(st.c or 0), st.v or '',
    spec, owner.tr}
end

-- Whether the worker speaks the protocol that the step needs.
local function supports(run, st)
  return (st.p or 1) <= run.env.protocol
end

-- Whether the worker may run the step now. Of suspects (steps that one more lost worker makes poisoned) it runs only
-- one at a time, so that the one that kills workers does not make others poisoned.
local function may_run_now(run, st, prefix)
  if (st.c or 0) < run.env.suspect or st.v then return true end
  local key = steps.key_in(run, prefix, run.keys.step_suspects)
  local other = redis.call('HGET', key, run.env.worker)
  local has = other and steps.load(run, other, prefix)
  if has and has.s == 'r' and has.w == run.env.worker then return false end
  redis.call('HSET', key, run.env.worker, st.id)
  redis.call('EXPIRE', key, 86400)
  return true
end

-- The start of an attempt: now; of a gate when it opened, of a step that is done already when it was executed.
local function start_time(run, st)
  return (st.t == 'g' or st.v == 'recorded') and st.b or run.at
end

-- Begins the step that a pointer means, if it still waits for this attempt.
function taking.claim(run, id, prefix)
  if fences.closed(prefix) then return false end
  local _, step, attempt = steps.parse_job(id)
  local st = step and steps.load(run, step, prefix)
  if not st or st.s ~= 'q' or st.f ~= attempt or not steps.load_owner(run, st.r, prefix) then return false end
  steps.dequeue(run, step, prefix)
  if not supports(run, st) or not may_run_now(run, st, prefix) then
    -- It is offered again after a second, to any worker.
    st.s = 'd'
    steps.set(run, step, prefix, 's', 'd')
    steps.set_timer(run, step, prefix, run.now + 1000)
    return false
  end
  st.s, st.b, st.w, st.q = 'r', start_time(run, st), run.env.worker, st.h or st.q
  steps.set(run, step, prefix, 's', 'r', 'b', st.b, 'w', run.env.worker, 'q', st.q)
  begin(run, st, prefix)
  return true
end

-- How many steps and plain jobs the worker has got.
local function count(run)
  return #run.taken + #run.plain_jobs
end

-- Takes from a queue until the worker has `want`.
local function pop(run, list, want)
  local useless = 0
  while count(run) < want and useless < USELESS_MAX do
    local id = redis.call('LPOP', run.env.rq .. 'queue:' .. list)
    if not id then return end
    local project = pointers.project_of(run, id)
    if project then
      redis.call('DEL', run.env.rq .. 'job:' .. id)
      if not taking.claim(run, id, 'fc:{' .. project .. '}:') then useless = useless + 1 end
    elseif pointers.is_plain(run, id) then
      -- A job of plain RQ goes to the intermediate list, as in RQ itself, so that it is not lost.
      redis.call('RPUSH', run.env.rq .. 'queue:' .. list .. ':intermediate', id)
      run.plain_jobs[#run.plain_jobs + 1] = {id, list}
    else
      useless = useless + 1
    end
  end
end

-- Takes of the steps that this call made ready until the worker has `want`.
local function take_own(run, list, want)
  local own, prefix = run.fresh[list], run.keys.prefix
  while own and own[1] and count(run) < want and supports(run, own[1]) and may_run_now(run, own[1], prefix) do
    local st = table.remove(own, 1)
    st.s, st.b, st.w = 'r', start_time(run, st), run.env.worker
    steps.save(run, st)
    begin(run, st, prefix)
  end
end

-- Takes up to `want` steps: of each list in turn first what this call made ready, or, with `turn` = 'queue',
-- first what waits longer. What is left of the former goes to the queue. Returns whether there is something for the
-- relay.
function taking.take(run, want, turn)
  for _, list in ipairs(run.env.lists) do
    if turn == 'own' then take_own(run, list, want) end
    if run.env.rq ~= '' and count(run) < want then pop(run, list, want) end
    take_own(run, list, want)
  end
  return handoff.hand_over(run)
end

-- What the worker gets: Taken (store.py), packed; specs.
function taking.reply(run, results, to_relay)
  return {cmsgpack.pack({run.now, results, run.taken, run.plain_jobs, to_relay}), unpack(run.specs)}
end

return taking
