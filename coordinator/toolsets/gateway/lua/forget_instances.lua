--[[
purpose:   Forgets instances that ended long ago, and sessions that nobody has used for long.
guarantee: At most `batch` of them per run, each with all that it has; definitions go with their last instance.
           What has an operation under way stays a while longer.
args:      engine batch
reply:     {how many were forgotten, whether any are left that will have to be}
errors:    none
full:      deleting frees memory
--]]
-- @include instance
local BUSY_MS = 60000 -- after which an instance with an operation under way is looked at again

local function forget(id, inst)
  for approval in string.gmatch(redis.call('HGET', K_GATE_DATA .. id, 'g') or '', '%S+') do
    redis.call('DEL', K_GATE_APPROVAL .. approval)
    redis.call('ZREM', K_GATE_ASKED, approval)
  end
  if inst and redis.call('HINCRBY', K_GATE_BUNDLES, inst.bundle, -1) <= 0 then
    redis.call('HDEL', K_GATE_BUNDLES, inst.bundle)
    redis.call('UNLINK', K_GATE_BUNDLE .. inst.bundle)
  end
  redis.call('UNLINK', K_RUN .. id, K_RUN_SPEC .. id, K_GATE_DATA .. id, K_GATE_EVIDENCE .. id, K_GATE_WAITERS .. id)
  redis.call('ZREM', K_GATE_EXPIRY, id)
end

local ids = redis.call('ZRANGEBYSCORE', K_GATE_EXPIRY, '-inf', at, 'LIMIT', 0, batch)
for _, id in ipairs(ids) do
  local inst = load_instance(id)
  if inst and inst.operation then
    redis.call('ZADD', K_GATE_EXPIRY, whole(now + BUSY_MS), id)
  else
    forget(id, inst)
  end
end
return cmsgpack.pack({#ids, redis.call('EXISTS', K_GATE_EXPIRY) == 1})
