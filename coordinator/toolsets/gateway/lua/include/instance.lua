-- @include handoff
-- @include audit
-- @include waiters
-- An instance in Redis: a run of steps (include/step.lua of steps), whose hash K_RUN .. id has besides
--   h bundle  z state  v version  t started at  d deadline  k nesting  m parent: instance and operation
--   y ms that a session is kept  c operation under way, with  ct its transition  cs since  a its step  tr its trace
--   b the sub-workflow that it waits for;  x outcome  e ended at.  Its status is r running or e ended.
-- K_GATE_DATA .. id: c context  n input  v evidence by kind  f last failure (all JSON)  fa its time
--   o open approvals  g all approvals (ids with a blank behind each)
-- An operation is named by its correlation id. Scripts that continue it must present the id: it is the fence of the
-- instance.
-- In scripts an `inst` is a table with the names that `load_instance` gives to these fields; those that the hash does
-- not have are nil. A `step` has the stored fields of include/step.lua.

local EVIDENCE_MAX = 200 -- kept of each instance

-- The instance, or nil.
local function load_instance(id)
  local kind, status, version, state, operation, step, child, parent, pool, bundle, deadline, definition =
    unpack(redis.call('HMGET', K_RUN .. id, 'o', 's', 'v', 'z', 'c', 'a', 'b', 'm', 'q', 'h', 'd', 'n'))
  if kind ~= 'gateway' then return nil end
  return {id = id, status = status, version = tonumber(version), state = state, operation = operation or nil,
    step = step or nil, child = child or nil, parent = parent or nil, pool = pool or nil, bundle = bundle,
    deadline = deadline and tonumber(deadline) or nil, definition = definition}
end

-- Puts the token of an operation on an instance, and the trace that it belongs to if there is one.
local function set_operation(inst, operation, transition, trace)
  inst.operation = operation
  redis.call('HSET', K_RUN .. inst.id, 'c', operation, 'ct', transition, 'cs', at)
  if trace and trace ~= '' then redis.call('HSET', K_RUN .. inst.id, 'tr', trace) end
end

-- The operation is over: keeps its ending (JSON) for those that wait for it, and tells them.
local function end_operation(inst, ending, keep_ms)
  redis.call('SET', K_GATE_ENDING .. inst.operation, ending, 'PX', keep_ms)
  redis.call('HDEL', K_RUN .. inst.id, 'c', 'ct', 'cs', 'a', 'b', 'tr')
  inst.operation, inst.step, inst.child = nil, nil, nil
  tell_waiters(inst.id)
end

-- Id of the step that waits for the deadline of an instance.
local function timer_of(id)
  return id .. '_t'
end

-- Ends a step wherever it is; who runs it is told to stop.
local function stop_step(id)
  local step = load_step(id)
  if not step then return end
  interrupt(step)
  discard(step)
end

-- What a sub-workflow hands to the one that waits for it, as JSON; nil: it has not ended.
local function result_of(id)
  local kind, status, state, outcome = unpack(redis.call('HMGET', K_RUN .. id, 'o', 's', 'z', 'x'))
  if kind ~= 'gateway' then return '{"outcome":""}' end
  if status == 'r' then return nil end
  return '{"state":' .. cjson.encode(state) .. ',"outcome":' .. cjson.encode(outcome or '') .. ',"context":' ..
    (redis.call('HGET', K_GATE_DATA .. id, 'c') or '{}') .. '}'
end

-- Opens the step that has to be over before the operation goes on: the fields of NextStep in rules/task.py. Its number
-- is the time, or the one after the last: a server that has lost its last writes gives none again that a worker has.
local function open_step(inst, kind, task, delay_ms, expires_ms, child)
  local number = whole(math.max(now, tonumber(redis.call('HGET', K_RUN .. inst.id, 'i') or 0) + 1))
  local step = {id = inst.id .. '_' .. number, r = inst.id, k = inst.operation, f = '1', e = at,
    q = list_of(inst.pool), z = task}
  inst.step = step.id
  redis.call('HSET', K_RUN .. inst.id, 'a', step.id, 'i', number)
  if kind == 'child' then
    step.a = result_of(child)
    redis.call('HSET', K_RUN .. inst.id, 'b', child)
    if not step.a then
      step.s, step.b, step.t = 'g', at, 'g'
      save_step(step)
      if expires_ms > 0 then redis.call('ZADD', K_STEP_TIMERS, whole(now + expires_ms), step.id) end
      return
    end
  end
  make_ready_after(step, delay_ms)
end

-- A sub-workflow has ended: lets the operation go on that waits for it, if any does.
local function resume_parent(inst)
  local id, operation = string.match(inst.parent or '', '^(%S+) (%S+)$')
  local parent = id and load_instance(id)
  if not parent or parent.operation ~= operation or parent.child ~= inst.id then return end
  local step = load_step(parent.step)
  if step and step.s == 'g' then
    detach(step)
    step.a, step.t = result_of(inst.id), nil
    make_ready(step)
  end
end
