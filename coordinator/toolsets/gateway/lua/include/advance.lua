-- @include instance
-- Writes what follows, as Python planned it: see Advance in rules/task.py.
--   {op, base, state, version, context, evidence, counts, approvals, audit, actor, ended, failure, next, ending}

-- Asks people for something, or closes all that they are asked for.
local function approve(inst, what, id, queue, distinct, by, transition)
  local open = redis.call('HGET', K_GATE_DATA .. inst.id, 'o') or ''
  if what == 'ask' then
    redis.call('HSET', K_GATE_APPROVAL .. id, 'w', inst.id, 'n', inst.n, 'q', queue, 'd', distinct and 1 or 0, 'r', by,
      't', at, 'k', transition, 's', 'pending')
    redis.call('ZADD', K_GATE_ASKED, at, id)
    local all = redis.call('HGET', K_GATE_DATA .. inst.id, 'g') or ''
    redis.call('HSET', K_GATE_DATA .. inst.id, 'o', open .. id .. ' ', 'g', all .. id .. ' ')
    return
  end
  for one in string.gmatch(open, '%S+') do
    redis.call('HSET', K_GATE_APPROVAL .. one, 's', what, 'b', by, 'e', at, 'a', transition)
    redis.call('ZREM', K_GATE_ASKED, one)
  end
  redis.call('HDEL', K_GATE_DATA .. inst.id, 'o')
end

local function end_instance(inst, outcome, retention_ms)
  redis.call('HSET', K_RUN .. inst.id, 's', 'e', 'x', outcome, 'e', at)
  redis.call('HDEL', K_RUN .. inst.id, 'd')
  if inst.d then stop_step(inst.id .. '_t') end
  redis.call('ZADD', K_GATE_EXPIRY, whole(now + retention_ms), inst.id)
  approve(inst, 'withdrawn', '', '', false, '', '')
  emit(env.cap, 'gateway_ended', inst.id, 's', inst.z, 'o', outcome)
end

-- `inst.c` is the advance's operation. Afterwards the operation waits for its next step, or is over.
local function apply(inst, adv, keep_ms, retention_ms)
  local op, state, version, context, evidence, counts = adv[1], adv[3], adv[4], adv[5], adv[6], adv[7]
  local data = {}
  if context ~= '' then data[1], data[2] = 'c', context end
  if counts ~= '' then data[#data + 1], data[#data + 2] = 'v', counts end
  if adv[12] == '-' then
    redis.call('HDEL', K_GATE_DATA .. inst.id, 'f', 'fa')
  elseif adv[12] ~= '' then
    for _, word in ipairs({'f', adv[12], 'fa', at}) do data[#data + 1] = word end
  end
  if #data > 0 then redis.call('HSET', K_GATE_DATA .. inst.id, unpack(data)) end
  for _, one in ipairs(evidence) do redis.call('RPUSH', K_GATE_EVIDENCE .. inst.id, at .. ' ' .. one) end
  if #evidence > 0 then redis.call('LTRIM', K_GATE_EVIDENCE .. inst.id, -EVIDENCE, -1) end
  if inst.z ~= state or inst.v ~= version then
    redis.call('HSET', K_RUN .. inst.id, 'z', state, 'v', version)
    emit(env.cap, 'gateway_moved', inst.id, 's', state, 'v', version)
    inst.z, inst.v = state, version
  end
  for _, one in ipairs(adv[8]) do approve(inst, unpack(one)) end
  for _, one in ipairs(adv[9]) do audit(env.cap, inst.id, op, adv[10], one[1], one[2]) end
  if adv[11] ~= '' then end_instance(inst, adv[11], retention_ms) end
  if adv[13] then
    open_step(inst, unpack(adv[13]))
  else
    finish(inst, adv[14], keep_ms)
  end
  if adv[11] ~= '' then resume_parent(inst) end
end

-- Puts the token of an operation on an instance, and the trace that it belongs to if there is one.
local function engage(inst, op, transition, trace)
  inst.c = op
  redis.call('HSET', K_RUN .. inst.id, 'c', op, 'ct', transition, 'cs', at)
  if trace and trace ~= '' then redis.call('HSET', K_RUN .. inst.id, 'tr', trace) end
end

-- Its time is over: whatever goes on is stopped, and it moves as planned. False: it has moved meanwhile.
local function take_over(inst, adv, keep_ms, retention_ms, late)
  if inst.s ~= 'r' or not inst.d or tonumber(inst.d) > now or inst.v ~= adv[2] then return false end
  if inst.c then
    if inst.a then stop_step(inst.a) end
    finish(inst, late, keep_ms)
  end
  stop_step(inst.id .. '_t')
  redis.call('HDEL', K_RUN .. inst.id, 'd')
  engage(inst, adv[1], '')
  apply(inst, adv, keep_ms, retention_ms)
  return true
end
