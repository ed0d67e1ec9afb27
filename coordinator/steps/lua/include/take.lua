-- @include handoff
-- A worker takes steps: pointers that wait in its lists, oldest first, then those that this run made ready.
-- Each is leased to the worker by the time of this server, and its attempt is the fence that the worker has
-- to show with the outcome. Where the queue is another Redis, only the latter can be taken here.

local STALE = 100 -- pointers to nothing that one run throws away at most

local taken, specs, strangers = {}, {}, {}

-- Leases a step to the worker and adds what it needs to know to `taken`.
local function begin(st, prefix, now)
  if tonumber(st.p or 1) > E.protocol then
    -- Of a newer release; a worker that knows it gets it within a second.
    redis.call('HSET', key_in(prefix, K_STEP) .. st.id, 's', 'd')
    redis.call('ZADD', key_in(prefix, K_STEP_TIMERS), whole(now + 1000), st.id)
    return
  end
  redis.call('ZADD', key_in(prefix, K_STEP_LEASES), whole(now + E.lease), st.id)
  local head = redis.call('HMGET', key_in(prefix, K_RUN) .. st.r, 'o', 'u', 'n', 'w')
  local at = 0
  if head[4] ~= E.worker then
    redis.call('HSET', key_in(prefix, K_RUN) .. st.r, 'w', E.worker)
    at = #specs + 1
    specs[at] = redis.call('GET', key_in(prefix, K_RUN_SPEC) .. st.r)
  end
  taken[#taken + 1] = {string.sub(prefix, 5, -3), head[1] or 'flows', st.r, st.id, tonumber(st.f), st.k, st.z or '',
    st.a or '', head[2] or '', head[3] or '', tonumber(st.e), tonumber(st.b), tonumber(st.l or 0), tonumber(st.c or 0),
    st.v or '', at}
end

-- When an attempt starts; a gate started when it opened.
local function starts(st, now)
  return st.t == 'g' and st.b or whole(now)
end

-- Begins the step that a pointer means, if it still waits for this attempt.
local function claim(id, prefix, now)
  local _, step, attempt = parse_job(id)
  local st = step and load_step(step, prefix)
  if not st or st.s ~= 'q' or st.f ~= attempt then return false end
  redis.call('ZREM', key_in(prefix, K_STEP_QUEUE), step)
  st.b = starts(st, now)
  redis.call('HSET', key_in(prefix, K_STEP) .. step, 's', 'r', 'b', st.b, 'w', E.worker)
  begin(st, prefix, now)
  return true
end

local function pop(list, now, want)
  local stale = 0
  while #taken + #strangers < want and stale < STALE do
    local id = redis.call('LPOP', E.rq .. 'queue:' .. list)
    if not id then return end
    local job = E.rq .. 'job:' .. id
    local project = redis.call('HGET', job, 'fleet')
    if project then
      redis.call('DEL', job)
      if not claim(id, 'fc:{' .. project .. '}:', now) then stale = stale + 1 end
    elseif redis.call('EXISTS', job) == 1 then
      -- A job that somebody made with plain RQ; as RQ does it, so that it is not lost.
      redis.call('RPUSH', E.rq .. 'queue:' .. list .. ':intermediate', id)
      strangers[#strangers + 1] = {id, list}
    end
  end
end

-- Takes up to `want` steps; what this run made ready and nobody takes goes to the queue.
local function take(want, now)
  for _, list in ipairs(E.lists) do
    if E.rq ~= '' and #taken + #strangers < want then pop(list, now, want) end
    local own = fresh[list] or {}
    while own[1] and #taken + #strangers < want do
      local st = table.remove(own, 1)
      pending = pending - 1
      st.s, st.b, st.w = 'r', starts(st, now), E.worker
      save_step(st)
      begin(st, P, now)
    end
  end
  return hand_over(now)
end

-- What the worker gets: {now, results, taken, strangers, whether there is something for the relay}, specs.
local function taken_reply(now, results, told)
  return {cmsgpack.pack({now, results, taken, strangers, told}), unpack(specs)}
end
