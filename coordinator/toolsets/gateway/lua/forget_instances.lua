--[[
purpose:   Forgets instances that ended long ago, and sessions that nobody has used for long.
guarantee: At most `batch` of them per call, each with all that it has; definitions go with their last instance.
           What has an operation under way stays a while longer.
args:      run.engine batch
reply:     {how many were forgotten, whether any are left that will have to be}
errors:    none
writes:    run run_spec gate_data gate_evidence gate_waiters gate_bundle gate_bundles gate_expiry gate_approval
           gate_asked
full:      deleting frees memory
--]]
local clock = require 'clock'
local instances = require 'instances'

local BUSY_MS = 60000 -- after which an instance with an operation under way is looked at again

-- Forgets an instance (nil: all but a remainder of it is gone already) with all that it has.
local function forget(run, id, inst)
  for approval in string.gmatch(redis.call('HGET', run.keys.gate_data .. id, 'g') or '', '%S+') do
    redis.call('DEL', run.keys.gate_approval .. approval)
    redis.call('ZREM', run.keys.gate_asked, approval)
  end
  if inst and redis.call('HINCRBY', run.keys.gate_bundles, inst.bundle, -1) <= 0 then
    redis.call('HDEL', run.keys.gate_bundles, inst.bundle)
    redis.call('UNLINK', run.keys.gate_bundle .. inst.bundle)
  end
  redis.call('UNLINK', run.keys.run .. id, run.keys.run_spec .. id, run.keys.gate_data .. id,
    run.keys.gate_evidence .. id, run.keys.gate_waiters .. id)
  redis.call('ZREM', run.keys.gate_expiry, id)
end

return function(run, batch)
  local ids = redis.call('ZRANGEBYSCORE', run.keys.gate_expiry, '-inf', run.at, 'LIMIT', 0, batch)
  for _, id in ipairs(ids) do
    local inst = instances.load(run, id)
    if inst and inst.operation then
      redis.call('ZADD', run.keys.gate_expiry, clock.whole(run.now + BUSY_MS), id)
    else
      forget(run, id, inst)
    end
  end
  return cmsgpack.pack({#ids, redis.call('EXISTS', run.keys.gate_expiry) == 1})
end
