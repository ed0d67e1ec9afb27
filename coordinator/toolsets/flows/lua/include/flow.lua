-- @include plan
-- @include attempts
-- A flow in Redis: a run of steps (include/step.lua of steps) whose status is
--   r running  p paused  c completed  f failed  x cancelled
-- and which has besides
--   h creator, hashed  k step ids reserved after its own  t created at, if that is not its id
--   m parent  e ended at  x why it failed, or who cancelled it
-- Indexes: K_FLOWS .. status and K_OWNED .. creator by id, K_ENDED by when it ended.

local function set_status(run, status)
  redis.call('ZREM', K_FLOWS .. run.s, run.id)
  redis.call('ZADD', K_FLOWS .. status, run.id, run.id)
  redis.call('HSET', K_RUN .. run.id, 's', status)
  run.s = status
end

-- Whether a flow goes on, now or once it is resumed.
local function is_open(run)
  return run.s == 'r' or run.s == 'p'
end

-- Calls `act` with each open step of a flow.
local function each_open_step(run, act)
  for n = 1, tonumber(redis.call('HGET', K_RUN .. run.id, 'i') or 0) do
    local st = load_step(whole(run.id + n))
    if st then act(st) end
  end
end

-- Cancels the open steps of a flow: those that nobody runs, or all.
local function close_steps(run, all)
  each_open_step(run, function(st)
    if all or st.s ~= 'r' then
      interrupt(st)
      cancel_step(st)
    end
  end)
end

-- Ends a flow; `why` goes with a failure (what) and a cancellation (who).
local function end_flow(run, status, why)
  set_status(run, status)
  redis.call('HSET', K_RUN .. run.id, 'e', at, unpack(why and {'x', why} or {}))
  -- A flow that failed or was cancelled may be run again.
  redis.call('HDEL', K_RUN .. run.id, 'w', unpack(status == 'c' and {'i'} or {}))
  redis.call('ZADD', K_ENDED, at, run.id)
  if status ~= 'c' then close_steps(run, status == 'x') end
  local kind = status == 'c' and 'flow_completed' or status == 'f' and 'flow_failed' or 'flow_cancelled'
  emit(env.cap, kind, run.id, unpack(status == 'x' and {'a', why} or {}))
end
