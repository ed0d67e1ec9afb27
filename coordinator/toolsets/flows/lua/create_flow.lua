--[[
purpose:   Stores a flow and starts it.
guarantee: Ids of flows and steps only rise, and none is given out twice: the flow takes the present time, or
           the number after the last one, and as many after it as it can have steps.
args:      request fingerprint keep_ms engine flow spec plan
           flow = packed {name, creator, creator hashed, most steps, priority, pool, delay ms, parent, trace}
           engine, plan = see include/handoff.lua and include/plan.lua of steps
reply:     {id, whether there is something for the relay}
errors:    REQUEST_ID_REUSED
--]]
-- @include idempotency
-- @include flow
local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local name, creator, owner, most_steps, priority, pool, delay_ms, parent, trace = unpack(cmsgpack.unpack(flow))
local id = math.max(now, tonumber(redis.call('GET', K_STEP_IDS) or 0) + 1)
redis.call('SET', K_STEP_IDS, whole(id + most_steps))

local run = {id = whole(id), s = 'r', p = priority ~= 'normal' and priority or nil, q = non_empty(pool)}
local fields = {'n', name, 'u', creator, 'h', owner, 's', 'r', 'k', most_steps}
local function also(field, value)
  if not value then return end
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
also('p', run.p)
also('q', run.q)
also('m', non_empty(parent))
also('tr', non_empty(trace))
also('t', id ~= now and at)
redis.call('HSET', K_RUN .. run.id, unpack(fields))
redis.call('SET', K_RUN_SPEC .. run.id, spec)
runs[K_RUN .. run.id] = run
redis.call('ZADD', K_FLOWS .. 'r', run.id, run.id)
redis.call('ZADD', K_OWNED .. owner, run.id, run.id)
emit(env.cap, 'flow_created', run.id)
follow(run, cmsgpack.unpack(plan), delay_ms)
return remember(request, fingerprint, 'D', cmsgpack.pack({id, hand_over()}), keep_ms)
