--[[
purpose:   Creates an instance, and begins what follows from its start.
guarantee: The instance, its definitions and the first step come into being together, once per request id; an
           instance that is there already stays as it is.
args:      request fingerprint keep_ms engine waiter instance bundle_text input advance
           instance = packed by name {id, definition, creator, bundle, retention_ms, transition, trace} and, where it
           has them, {timeout_ms, parent, nesting, session_ms, pool}; bundle_text = '' if it is probably stored
           already; advance = packed, see include/advance.lua
reply:     {id, operation, whether there is something for the relay}; id = '': the bundle has to be sent along;
           operation = '': the instance was there already
errors:    REQUEST_ID_REUSED
--]]
-- @include idempotency
-- @include advance
local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local new, adv = cmsgpack.unpack(instance), cmsgpack.unpack(advance)
local id = new.id
if redis.call('EXISTS', K_RUN .. id) == 1 then return cmsgpack.pack({id, '', false}) end
if redis.call('EXISTS', K_GATE_BUNDLE .. new.bundle) == 0 then
  if bundle_text == '' then return cmsgpack.pack({'', '', false}) end
  redis.call('SET', K_GATE_BUNDLE .. new.bundle, bundle_text)
end
redis.call('HINCRBY', K_GATE_BUNDLES, new.bundle, 1)

local inst = {id = id, status = 'r', version = 1, state = adv.state, definition = new.definition, pool = new.pool,
  bundle = new.bundle, parent = new.parent}
local fields = {'o', 'gateway', 'n', new.definition, 'u', new.creator, 's', 'r', 'h', new.bundle, 'v', 1, 'z',
  adv.state, 't', at}
local function also(field, value)
  if not value then return end
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
also('q', new.pool)
also('m', new.parent)
also('k', new.nesting)
also('y', new.session_ms)
if new.timeout_ms then
  local timer = {id = timer_of(id), r = id, k = 't', f = '1', q = list_of(new.pool)}
  make_ready_after(timer, new.timeout_ms)
  inst.deadline = tonumber(timer.e)
  also('d', timer.e)
end
redis.call('HSET', K_RUN .. id, unpack(fields))
redis.call('SET', K_RUN_SPEC .. id, new.bundle)
redis.call('HSET', K_GATE_DATA .. id, 'n', input, 'c', '{}')
if new.session_ms then redis.call('ZADD', K_GATE_EXPIRY, whole(now + new.session_ms), id) end
emit(env.cap, 'gateway_started', id, 'n', new.definition)
set_operation(inst, adv.op, new.transition, new.trace)
if adv.next then add_waiter(id, waiter) end
apply_advance(inst, adv, keep_ms, new.retention_ms)
return remember(request, fingerprint, 'D', cmsgpack.pack({id, adv.op, hand_over()}), keep_ms)
