-- An advance: the next changes of an instance, as planned in Python. An `adv` is a table with the fields of Advance in
-- rules/task.py; fields with their default are nil. An `inst` is a table as in instances.lua.
-- keep_ms: how long the ending of the operation is kept. retention_ms: how long an ended instance is kept.
-- owns: none
local approvals = require 'approvals'
local audit = require 'audit'
local events = require 'events'
local instance_data = require 'instance_data'
local instances = require 'instances'
local owners = require 'owners'
local retention = require 'retention'

local advances = {}

local function end_instance(run, inst, outcome, retention_ms)
  owners.set(run, inst.id, 's', 'e', 'x', outcome, 'e', run.at)
  owners.unset(run, inst.id, 'd')
  if inst.deadline then instances.stop_step(run, instances.timer_of(inst.id)) end
  retention.keep(run, inst.id, retention_ms)
  approvals.close(run, inst, 'withdrawn', '', '')
  events.emit(run, 'gateway_ended', inst.id, 's', inst.state, 'o', outcome)
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
  instance_data.write(run, inst, adv)
  if adv.evidence then instance_data.add_evidence(run, inst, adv.evidence) end
  local moved = inst.state ~= adv.state or inst.version ~= adv.version
  if moved then
    owners.set(run, inst.id, 'z', adv.state, 'v', adv.version)
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
  owners.unset(run, inst.id, 'd')
  instances.set_operation(run, inst, adv.op, '')
  advances.apply(run, inst, adv, keep_ms, retention_ms)
  return true
end

return advances
