-- An instance in Redis: an owner of steps (steps.lua of steps), whose hash keys.run .. id also has
--   h bundle  z state  v version  t started at  d deadline  k nesting  m parent: instance and operation
--   y ms that a session is kept  c operation in progress, with  ct its transition  cs since  a its step  tr its trace
--   so whose states of servers it uses, if not its own
--   b the sub-workflow that it waits for;  x outcome  e ended at.  l last entry in the audit (audit.lua)
-- Its status is r running or e ended.
-- instance_data.lua has what it holds besides.
-- gate_index has all instances, scored by when their state, approvals or last operation ended or changed.
-- The correlation id names an operation and fences the instance: whoever continues the operation presents it.
-- An `inst` is a table with the names that `instances.load` gives to these fields; missing
-- fields are nil. A `step` has the stored fields of steps.lua of steps.
-- owns: gate_ending gate_index
local clock = require 'clock'
local handoff = require 'handoff'
local owners = require 'owners'
local steps = require 'steps'
local waiters = require 'waiters'

local instances = {}

-- The instance, or nil.
function instances.load(run, id)
  local kind, status, version, state, operation, step, child, parent, pool, bundle, deadline, definition =
    unpack(redis.call('HMGET', run.keys.run .. id, 'o', 's', 'v', 'z', 'c', 'a', 'b', 'm', 'q', 'h', 'd', 'n'))
  if kind ~= 'gateway' then return nil end
  return {id = id, status = status, version = tonumber(version), state = state, operation = operation or nil,
    step = step or nil, child = child or nil, parent = parent or nil, pool = pool or nil, bundle = bundle,
    deadline = deadline and tonumber(deadline) or nil, definition = definition}
end

-- Lists the instance as changed now.
function instances.list(run, inst)
  redis.call('ZADD', run.keys.gate_index, run.now, inst.id)
end

function instances.unlist(run, id)
  redis.call('ZREM', run.keys.gate_index, id)
end

-- Records an operation as in progress, with its trace if there is one.
function instances.set_operation(run, inst, operation, transition, trace)
  inst.operation = operation
  owners.set(run, inst.id, 'c', operation, 'ct', transition, 'cs', run.at)
  if trace and trace ~= '' then owners.set(run, inst.id, 'tr', trace) end
end

-- Ends the operation: keeps its ending (JSON) for the calls that wait for it, and notifies them.
function instances.end_operation(run, inst, ending, keep_ms)
  redis.call('SET', run.keys.gate_ending .. inst.operation, ending, 'PX', keep_ms)
  owners.unset(run, inst.id, 'c', 'ct', 'cs', 'a', 'b', 'tr')
  inst.operation, inst.step, inst.child = nil, nil, nil
  waiters.tell(run, inst.id)
end

-- Id of the step that waits for the deadline of an instance.
function instances.timer_of(id)
  return id .. '_t'
end

-- Ends a step in any status; a worker that runs it is told to stop.
function instances.stop_step(run, id)
  local step = steps.load(run, id)
  if not step then return end
  handoff.interrupt(run, step)
  steps.discard(run, step)
end

-- The result of a sub-workflow for its parent, as JSON; nil: it has not ended.
local function result_of(run, id)
  local kind, status, state, outcome = unpack(redis.call('HMGET', run.keys.run .. id, 'o', 's', 'z', 'x'))
  if kind ~= 'gateway' then return '{"outcome":""}' end
  if status == 'r' then return nil end
  return '{"state":' .. cjson.encode(state) .. ',"outcome":' .. cjson.encode(outcome or '') .. ',"context":' ..
    (redis.call('HGET', run.keys.gate_data .. id, 'c') or '{}') .. '}'
end

-- Opens the step that the operation waits for: the fields of NextStep in rules/task.py. Its number is the time, or the
-- last number + 1: so a server that lost its last writes does not reuse the number of a step that a worker holds.
function instances.open_step(run, inst, kind, task, delay_ms, expires_ms, child)
  local number = clock.whole(math.max(run.now, tonumber(redis.call('HGET', run.keys.run .. inst.id, 'i') or 0) + 1))
  local step = {id = inst.id .. '_' .. number, r = inst.id, k = inst.operation, f = '1', e = run.at,
    q = handoff.list_of(inst.pool), z = task}
  inst.step = step.id
  owners.set(run, inst.id, 'a', step.id, 'i', number)
  if kind == 'child' then
    step.a = result_of(run, child)
    owners.set(run, inst.id, 'b', child)
    if not step.a then
      step.s, step.b, step.t = 'g', run.at, 'g'
      steps.save(run, step)
      if expires_ms > 0 then steps.set_timer(run, step.id, run.keys.prefix, run.now + expires_ms) end
      return
    end
  end
  handoff.make_ready_after(run, step, delay_ms)
end

-- After a sub-workflow has ended: continues the operation that waits for it, if any.
function instances.resume_parent(run, inst)
  local id, operation = string.match(inst.parent or '', '^(%S+) (%S+)$')
  local parent = id and instances.load(run, id)
  if not parent or parent.operation ~= operation or parent.child ~= inst.id then return end
  local step = steps.load(run, parent.step)
  if step and step.s == 'g' then
    steps.detach(run, step)
    step.a, step.t = result_of(run, inst.id), nil
    handoff.make_ready(run, step)
  end
end

return instances
