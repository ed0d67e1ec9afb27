--[[
purpose:   Creates an instance, and begins what follows from its start.
guarantee: The instance, its definitions and the first step come into being together, once per request id; an
           instance that is there already stays as it is.
args:      request fingerprint keep_ms engine waiter instance bundle_text input advance
           instance = packed {id, definition, creator, bundle, deadline after ms, parent, nesting, session ms,
           pool, retention ms, transition, trace}; bundle_text = '' if it is probably stored already
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
local id, hash = new[1], new[4]
if redis.call('EXISTS', K_RUN .. id) == 1 then return cmsgpack.pack({id, '', false}) end
if redis.call('EXISTS', K_GATE_BUNDLE .. hash) == 0 then
  if bundle_text == '' then return cmsgpack.pack({'', '', false}) end
  redis.call('SET', K_GATE_BUNDLE .. hash, bundle_text)
end
redis.call('HINCRBY', K_GATE_BUNDLES, hash, 1)

local inst = {id = id, s = 'r', v = 1, z = adv[3], n = new[2], q = new[9] ~= '' and new[9] or nil, h = hash,
  m = new[6] ~= '' and new[6] or nil}
local fields = {'o', 'gateway', 'n', new[2], 'u', new[3], 's', 'r', 'h', hash, 'v', 1, 'z', inst.z, 't', at}
local function also(field, value)
  if not value then return end
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
also('q', inst.q)
also('m', inst.m)
also('k', new[7] > 0 and new[7])
also('y', new[8] > 0 and new[8])
if new[5] > 0 then
  local timer = {id = id .. '_t', r = id, k = 't', f = '1', q = list_of(inst.q)}
  make_ready_after(timer, new[5])
  inst.d = timer.e
  also('d', inst.d)
end
redis.call('HSET', K_RUN .. id, unpack(fields))
redis.call('SET', K_RUN_SPEC .. id, hash)
redis.call('HSET', K_GATE_DATA .. id, 'n', input, 'c', '{}')
if new[8] > 0 then redis.call('ZADD', K_GATE_EXPIRY, whole(now + new[8]), id) end
emit(env.cap, 'gateway_started', id, 'n', new[2])
engage(inst, adv[1], new[11], new[12])
if adv[13] then await(id, waiter) end
apply(inst, adv, keep_ms, new[10])
return remember(request, fingerprint, 'D', cmsgpack.pack({id, adv[1], hand_over()}), keep_ms)
