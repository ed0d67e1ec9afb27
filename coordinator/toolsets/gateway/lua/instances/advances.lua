-- An advance: the next changes of an instance, as planned in Python. An `adv` is a table with the fields of Advance in
-- rules/task.py; fields with their default are nil. An `inst` is a table as in instances.lua.
-- keep_ms: how long the ending of the operation is kept. retention_ms: how long an ended instance is kept.
local approvals = require 'approvals'
local audit = require 'audit'
local clock = require 'clock'
local events = require 'events'
local instances = require 'instances'

local EVIDENCE_MAX = 200 -- per instance

local advances = {}

local function end_instance(run, inst, outcome, retention_ms)
  redis.call('HSET', run.keys.run .. inst.id, 's', 'e', 'x', outcome, 'e', run.at)
  redis.call('HDEL', run.keys.run .. inst.id, 'd')
  if inst.deadline then instances.stop_step(run, instances.timer_of(inst.id)) end
  redis.call('ZADD', run.keys.gate_expiry, clock.whole(run.now + retention_ms), inst.id)
  approvals.close(run, inst, 'withdrawn', '', '')
  events.emit(run, 'gateway_ended', inst.id, 's', inst.state, 'o', outcome)
end

-- Writes context, evidence by kind, the last failure, and values that are kept whole.
local function write_data(run, inst, adv)
  local fields = {}
  local function also(field, value)
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  if adv.context then also('c', adv.context) end
  if adv.counts then also('v', adv.counts) end
  if adv.kept then also('r', adv.kept) end
  if adv.failure == '-' then
    redis.call('HDEL', run.keys.gate_data .. inst.id, 'f', 'fa')
  elseif adv.failure then
    also('f', adv.failure)
    also('fa', run.at)
  end
  if #fields > 0 then redis.call('HSET', run.keys.gate_data .. inst.id, unpack(fields)) end
  for _, result in ipairs(adv.results or {}) do
    local key = run.keys.gate_result .. inst.id .. '_' .. result[1]
    if result[2] == '' then redis.call('UNLINK', key) else redis.call('SET', key, result[2]) end
  end
end

local function add_evidence(run, inst, evidence)
  local key = run.keys.gate_evidence .. inst.id
  for _, about in ipairs(evidence) do redis.call('RPUSH', key, run.at .. ' ' .. about) end
  redis.call('LTRIM', key, -EVIDENCE_MAX, -1)
end

-- Goes through the fields of Approval in rules/task.py.
local function change_approvals(run, inst, changes)
  for _, approval in ipairs(changes) do
    local what, id, queue, distinct, by, transition, via = unpack(approval)
    if what == 'ask' then
      approvals.ask(run, inst, id, queue, distinct, by, transition)
    else
      approvals.close(run, inst, what, by, transition, via)
    end
  end
end

-- Writes an advance of the operation in progress, which then waits for its next step or is over.
function advances.apply(run, inst, adv, keep_ms, retention_ms)
  write_data(run, inst, adv)
  if adv.evidence then add_evidence(run, inst, adv.evidence) end
  local moved = inst.state ~= adv.state or inst.version ~= adv.version
  if moved then
    redis.call('HSET', run.keys.run .. inst.id, 'z', adv.state, 'v', adv.version)
    events.emit(run, 'gateway_moved', inst.id, 's', adv.state, 'v', adv.version)
    inst.state, inst.version = adv.state, adv.version
  end
  if adv.approvals then change_approvals(run, inst, adv.approvals) end
  for _, event in ipairs(adv.audit or {}) do audit.add(run, inst.id, adv.op, adv.actor or '', unpack(event)) end
  if adv.ended then end_instance(run, inst, adv.ended, retention_ms) end
  if adv.next then
    instances.open_step(run, inst, unpack(adv.next))
  else
    instances.end_operation(run, inst, adv.ending or '', keep_ms)
    if adv.failure and adv.failure ~= '-' then
      events.emit(run, 'gateway_failed', inst.id, 's', inst.state, 'v', inst.version)
    end
  end
  if moved or adv.ended or adv.approvals or not adv.next then instances.list(run, inst) end
  if adv.ended then instances.resume_parent(run, inst) end
end

-- Times out an instance as planned. An operation in progress is stopped and ends with `late`. Returns false if the
-- instance has moved since.
function advances.apply_timeout(run, inst, adv, keep_ms, retention_ms, late)
  if inst.status ~= 'r' or inst.version ~= adv.base then return false end
  if not inst.deadline or inst.deadline > run.now then return false end
  if inst.operation then
    if inst.step then instances.stop_step(run, inst.step) end
    instances.end_operation(run, inst, late, keep_ms)
  end
  instances.stop_step(run, instances.timer_of(inst.id))
  redis.call('HDEL', run.keys.run .. inst.id, 'd')
  instances.set_operation(run, inst, adv.op, '')
  advances.apply(run, inst, adv, keep_ms, retention_ms)
  return true
end

return advances
