-- Ends of attempts that do not end their step: another attempt follows, under a higher fence. A step is a table `st` as
-- in steps.lua.
-- owns: step_addressed
local clock = require 'clock'
local handoff = require 'handoff'
local step_events = require 'step_events'
local steps = require 'steps'

local attempts = {}

local ADDRESSED_MS = 2000 -- how long a step waits for one worker before it goes back to its pool

-- The step, if the calling worker runs `attempt` of it; else nil: the report comes late, or a second time. The number
-- alone is not enough if a server has lost its last writes: it assigns the same numbers again.
function attempts.running(run, id, attempt)
  local st = steps.load(run, id)
  return st and st.s == 'r' and tonumber(st.f) == attempt and st.w == run.env.worker and st or nil
end

-- Another attempt after `delay` ms.
local function next_attempt(run, st, delay)
  steps.detach(run, st)
  st.f, st.w = clock.whole(st.f + 1), nil
  if st.t ~= 'g' and st.v ~= 'recorded' then st.b = nil end
  handoff.make_ready_after(run, st, delay)
end

-- The attempt failed, and the step's retries are not used up.
function attempts.fail(run, st, delay)
  st.l = (st.l or 0) + 1
  step_events.emit(run, 'step_retry', st)
  next_attempt(run, st, delay)
end

-- The worker did not execute it: it drains, or does not know how. `where`: ms until it is offered again, or the list of
-- the worker that is to have it.
function attempts.give_back(run, st, where)
  if type(where) ~= 'string' then return next_attempt(run, st, where) end
  st.h, st.q = st.q, where
  redis.call('ZADD', run.keys.step_addressed, clock.whole(run.now + ADDRESSED_MS), st.id)
  next_attempt(run, st, 0)
end

-- A step was given back for one worker some time ago: if that has not taken it, it goes back to its pool. One that was
-- taken has the list of its pool already.
function attempts.send_home(run, id)
  redis.call('ZREM', run.keys.step_addressed, id)
  local st = steps.load(run, id)
  if not st or st.s == 'r' or not st.h or st.h == st.q then return end
  st.q, st.h = st.h, nil
  next_attempt(run, st, 0)
end

-- The worker was lost. After `most` losses the step is assumed to kill workers.
function attempts.crash(run, st, most)
  st.c = (st.c or 0) + 1
  -- A recorded step is not executed, so it kills nobody.
  if st.c >= most and st.v ~= 'recorded' then st.v = 'poisoned' end
  step_events.emit(run, 'step_lost', st)
  next_attempt(run, st, 0)
end

return attempts
