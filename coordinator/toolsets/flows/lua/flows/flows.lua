-- A flow in Redis: an owner of steps (steps.lua of steps) whose status is
--   r running  p paused  c completed  f failed  x cancelled
-- and which also has
--   h creator, hashed  k step ids reserved after its own  t created at, if that is not its id
--   m parent  e ended at  x why it failed, or who cancelled it
-- Indexes: flows .. status and owned .. creator by id, ended by when it ended.
-- owns: flows owned ended
local clock = require 'clock'
local events = require 'events'
local handoff = require 'handoff'
local history = require 'history'
local owners = require 'owners'
local steps = require 'steps'

local flows = {}

function flows.set_status(run, flow, status)
  redis.call('ZREM', run.keys.flows .. flow.s, flow.id)
  redis.call('ZADD', run.keys.flows .. status, flow.id, flow.id)
  owners.set(run, flow.id, 's', status)
  flow.s = status
end

-- Lists a new flow.
function flows.list(run, flow, creator_hash)
  redis.call('ZADD', run.keys.flows .. flow.s, flow.id, flow.id)
  redis.call('ZADD', run.keys.owned .. creator_hash, flow.id, flow.id)
end

-- A flow that had ended goes on.
function flows.reopen(run, flow)
  redis.call('ZREM', run.keys.ended, flow.id)
  owners.unset(run, flow.id, 'e', 'x')
  flows.set_status(run, flow, 'r')
end

-- Deletes a flow that has ended.
function flows.forget(run, id)
  local status, creator_hash = unpack(redis.call('HMGET', run.keys.run .. id, 's', 'h'))
  if status then
    redis.call('ZREM', run.keys.flows .. status, id)
    redis.call('ZREM', run.keys.owned .. creator_hash, id)
  end
  owners.forget(run, id)
  history.forget(run, id)
  redis.call('ZREM', run.keys.ended, id)
end

-- Whether a flow is open: running or paused.
function flows.is_open(flow)
  return flow.s == 'r' or flow.s == 'p'
end

-- Calls `act` with each open step of a flow.
function flows.each_open_step(run, flow, act)
  for n = 1, tonumber(redis.call('HGET', run.keys.run .. flow.id, 'i') or 0) do
    local st = steps.load(run, clock.whole(flow.id + n))
    if st then act(st) end
  end
end

-- Cancels the open steps of a flow: those that no worker runs, or all.
local function close_steps(run, flow, all)
  flows.each_open_step(run, flow, function(st)
    if all or st.s ~= 'r' then
      handoff.interrupt(run, st)
      history.cancel(run, st)
    end
  end)
end

-- Ends a flow; `why`: what failed, or who cancelled it.
function flows.finish(run, flow, status, why)
  flows.set_status(run, flow, status)
  owners.set(run, flow.id, 'e', run.at, unpack(why and {'x', why} or {}))
  -- A failed or cancelled flow can be retried.
  owners.unset(run, flow.id, 'w', unpack(status == 'c' and {'i'} or {}))
  redis.call('ZADD', run.keys.ended, run.at, flow.id)
  if status ~= 'c' then close_steps(run, flow, status == 'x') end
  local kind = status == 'c' and 'flow_completed' or status == 'f' and 'flow_failed' or 'flow_cancelled'
  if status == 'x' then
    events.emit(run, kind, flow.id, 'a', why, steps.audience(flow))
  else
    events.emit(run, kind, flow.id, steps.audience(flow))
  end
end

return flows
