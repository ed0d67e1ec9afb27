--[[
purpose:   Handles what is due: steps whose lease has expired get another attempt, those whose time has come are
           handed to the workers, those that one worker was to have and has not taken go back to their pool, and those
           that the project's limit held back follow as it allows. Steps of paused runs keep waiting.
guarantee: Any process may run it at any time, several at once. At most `batch` steps of each kind per call.
args:      run.engine batch crashes job_check_ms
           crashes = lost workers after which a step is given up; job_check_ms = how long a step may wait in the
           queue before its job is checked, and again after each check
reply:     Swept (store.py)
errors:    none
--]]
local attempts = require 'attempts'
local clock = require 'clock'
local handoff = require 'handoff'
local history = require 'history'
local steps = require 'steps'

-- Ids of the set whose time has come, `most` at most.
local function due(key, time, most)
  return redis.call('ZRANGEBYSCORE', key, '-inf', clock.whole(time), 'LIMIT', 0, most)
end

-- A flow that has ended; no attempt begins in it.
local function is_over(owner)
  return owner.o == 'flows' and owner.s ~= 'r' and owner.s ~= 'p'
end

-- The lease of a step has expired.
local function end_lease(run, id, crashes)
  local st = steps.load(run, id)
  if not st or st.s ~= 'r' then
    steps.lease(run, id, run.keys.prefix)
    return
  end
  local owner = steps.load_owner(run, st.r)
  if not owner then
    steps.discard(run, st)
  elseif is_over(owner) then
    history.cancel(run, st)
  else
    attempts.crash(run, st, crashes)
  end
end

-- Leases that end later than any can: the clock was set back. The worker that has the step renews it.
local function shorten_leases(run, most)
  local latest = run.now + run.env.lease
  local after = '(' .. clock.whole(latest)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', run.keys.step_leases, after, '+inf', 'LIMIT', 0, most)) do
    steps.lease(run, id, run.keys.prefix, latest)
  end
end

-- A delay of a step is over, or a gate has expired.
local function fire_timer(run, id)
  local st = steps.load(run, id)
  steps.set_timer(run, id, run.keys.prefix)
  if st and st.s == 'g' then
    steps.list_gate(run, id, false)
    st.v = 'expired'
  end
  if st and (st.s == 'g' or st.s == 'd') then handoff.make_ready(run, st) end
end

-- Steps that have waited in their queue for so long that their jobs should be checked.
local function find_suspects(run, job_check_ms, most)
  local suspects = {}
  for _, id in ipairs(due(run.keys.step_queue, run.now - job_check_ms, most)) do
    local st = steps.load(run, id)
    if st and st.s == 'q' then
      steps.enqueue(run, id)
      suspects[#suspects + 1] = {steps.job_id(run, st), st.q}
    else
      steps.dequeue(run, id, run.keys.prefix)
    end
  end
  return suspects
end

return function(run, batch, crashes, job_check_ms)
  local most = tonumber(batch)
  local expired = due(run.keys.step_leases, run.now, most)
  for _, id in ipairs(expired) do end_lease(run, id, tonumber(crashes)) end
  shorten_leases(run, most)
  local timed = due(run.keys.step_timers, run.now, most)
  for _, id in ipairs(timed) do fire_timer(run, id) end
  local addressed = due(run.keys.step_addressed, run.now, most)
  for _, id in ipairs(addressed) do attempts.send_home(run, id) end
  handoff.refill(run, true)
  local suspects = find_suspects(run, job_check_ms, most)
  local to_relay = handoff.hand_over(run) or redis.call('LLEN', run.keys.outbox) > 0

  local running, queued = redis.call('ZCARD', run.keys.step_leases), redis.call('ZCARD', run.keys.step_queue)
  local waiting = redis.call('ZCARD', run.keys.step_timers) + redis.call('ZCARD', run.keys.step_backlog)
  local idle = running + queued + waiting == 0 and not to_relay
  local more = #expired == most or #timed == most or #addressed == most
  return cmsgpack.pack({#expired, #timed, suspects, to_relay, running, queued, idle, more})
end
