--[[
purpose:   What time brings: steps whose lease has expired get another attempt, those whose time has come are
           handed to the workers, and those that the project's limit held back follow as it allows. Steps of
           paused runs wait on.
guarantee: Any process may run it at any time, several at once. At most `batch` steps of each kind per run.
args:      engine batch crashes job_check_ms
           crashes = lost workers after which a step is given up; job_check_ms = how long a step may wait in the
           queue before somebody makes sure that its job is there, and again after that
reply:     {lost, fired, suspects {job id, list}, whether there is something for the relay, steps that run,
           steps that wait in queues, whether nothing here needs a sweep, whether there is more to do now}
errors:    none
--]]
-- @include attempts
-- @include history
local most = tonumber(batch)

local function due(key, before)
  return redis.call('ZRANGEBYSCORE', key, '-inf', whole(before), 'LIMIT', 0, most)
end

local expired = due(K_STEP_LEASES, now)
for _, id in ipairs(expired) do
  local st = load_step(id)
  if not st or st.s ~= 'r' then
    redis.call('ZREM', K_STEP_LEASES, id)
  elseif not load_run(st.r) then
    discard(st)
  elseif load_run(st.r).o == 'flows' and load_run(st.r).s ~= 'r' and load_run(st.r).s ~= 'p' then
    cancel_step(st) -- no attempt begins in a flow that has ended
  else
    crash_attempt(st, tonumber(crashes))
  end
end

-- A lease that ends later than any can: the clock was put back since. Whoever has the step renews it.
local latest = whole(now + env.lease)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', K_STEP_LEASES, '(' .. latest, '+inf', 'LIMIT', 0, most)) do
  redis.call('ZADD', K_STEP_LEASES, latest, id)
end

local timed = due(K_STEP_TIMERS, now)
for _, id in ipairs(timed) do
  local st = load_step(id)
  redis.call('ZREM', K_STEP_TIMERS, id)
  if st and st.s == 'g' then st.v = 'expired' end
  if st and (st.s == 'g' or st.s == 'd') then make_ready(st) end
end

refill(true)

local suspects = {}
for _, id in ipairs(due(K_STEP_QUEUE, now - job_check_ms)) do
  local st = load_step(id)
  if st and st.s == 'q' then
    redis.call('ZADD', K_STEP_QUEUE, at, id)
    suspects[#suspects + 1] = {job_id(st), st.q}
  else
    redis.call('ZREM', K_STEP_QUEUE, id)
  end
end

local to_relay = hand_over() or redis.call('LLEN', K_OUTBOX) > 0
local runs, waits = redis.call('ZCARD', K_STEP_LEASES), redis.call('ZCARD', K_STEP_QUEUE)
local idle = runs + waits + redis.call('ZCARD', K_STEP_TIMERS) + redis.call('ZCARD', K_STEP_BACKLOG) == 0
return cmsgpack.pack({#expired, #timed, suspects, to_relay, runs, waits, idle and not to_relay,
  #expired == most or #timed == most})
