-- @include approvals
-- An advance: what follows in an instance, as Python planned it. In scripts an `adv` is a table with the fields of
-- Advance in rules/task.py; those that have their default there are nil.
-- keep_ms: how long the ending of the operation is kept. retention_ms: how long the instance is, once it has ended.

local function end_instance(inst, outcome, retention_ms)
  redis.call('HSET', K_RUN .. inst.id, 's', 'e', 'x', outcome, 'e', at)
  redis.call('HDEL', K_RUN .. inst.id, 'd')
  if inst.deadline then stop_step(timer_of(inst.id)) end
  redis.call('ZADD', K_GATE_EXPIRY, whole(now + retention_ms), inst.id)
  close_approvals(inst, 'withdrawn', '', '')
  emit(env.cap, 'gateway_ended', inst.id, 's', inst.state, 'o', outcome)
end

-- Writes context, evidence by kind, and the last failure.
local function write_data(inst, adv)
  local fields = {}
  local function also(field, value)
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  if adv.context then also('c', adv.context) end
  if adv.counts then also('v', adv.counts) end
  if adv.failure == '-' then
    redis.call('HDEL', K_GATE_DATA .. inst.id, 'f', 'fa')
  elseif adv.failure then
    also('f', adv.failure)
    also('fa', at)
  end
  if #fields > 0 then redis.call('HSET', K_GATE_DATA .. inst.id, unpack(fields)) end
end

local function add_evidence(inst, evidence)
  for _, about in ipairs(evidence) do redis.call('RPUSH', K_GATE_EVIDENCE .. inst.id, at .. ' ' .. about) end
  redis.call('LTRIM', K_GATE_EVIDENCE .. inst.id, -EVIDENCE_MAX, -1)
end

-- Goes through the fields of Approval in rules/task.py.
local function change_approvals(inst, approvals)
  for _, approval in ipairs(approvals) do
    local what, id, queue, distinct, by, transition = unpack(approval)
    if what == 'ask' then
      ask(inst, id, queue, distinct, by, transition)
    else
      close_approvals(inst, what, by, transition)
    end
  end
end

-- Writes an advance; its operation is the one under way. Afterwards that waits for its next step, or is over.
local function apply_advance(inst, adv, keep_ms, retention_ms)
  write_data(inst, adv)
  if adv.evidence then add_evidence(inst, adv.evidence) end
  if inst.state ~= adv.state or inst.version ~= adv.version then
    redis.call('HSET', K_RUN .. inst.id, 'z', adv.state, 'v', adv.version)
    emit(env.cap, 'gateway_moved', inst.id, 's', adv.state, 'v', adv.version)
    inst.state, inst.version = adv.state, adv.version
  end
  if adv.approvals then change_approvals(inst, adv.approvals) end
  for _, event in ipairs(adv.audit or {}) do audit(env.cap, inst.id, adv.op, adv.actor or '', unpack(event)) end
  if adv.ended then end_instance(inst, adv.ended, retention_ms) end
  if adv.next then
    open_step(inst, unpack(adv.next))
  else
    end_operation(inst, adv.ending or '', keep_ms)
  end
  if adv.ended then resume_parent(inst) end
end

-- Moves an instance whose time is over as planned, and stops what is under way, which ends with `late`. Returns false
-- where it has moved meanwhile.
local function apply_timeout(inst, adv, keep_ms, retention_ms, late)
  if inst.status ~= 'r' or not inst.deadline or inst.deadline > now or inst.version ~= adv.base then return false end
  if inst.operation then
    if inst.step then stop_step(inst.step) end
    end_operation(inst, late, keep_ms)
  end
  stop_step(timer_of(inst.id))
  redis.call('HDEL', K_RUN .. inst.id, 'd')
  set_operation(inst, adv.op, '')
  apply_advance(inst, adv, keep_ms, retention_ms)
  return true
end
