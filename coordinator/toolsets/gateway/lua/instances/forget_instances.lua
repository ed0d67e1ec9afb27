--[[
purpose:   Deletes instances that ended long ago, and idle sessions.
guarantee: At most `batch` of them per call, each with all its data; definitions go with their last instance.
           Instances with an operation in progress are postponed.
args:      run.engine batch
reply:     {how many were deleted, whether any remain, due now or later}
errors:    none
writes:    run run_spec gate_data gate_evidence gate_result gate_waiters gate_bundle gate_bundles gate_expiry
           gate_approval gate_asked gate_answered gate_index
full:      deleting frees memory
--]]
local clock = require 'clock'
local instances = require 'instances'

local BUSY_MS = 60000 -- postpones an instance with an operation in progress

-- Deletes an instance with all its data. `inst` nil: its hash was deleted before.
local function forget(run, id, inst)
  for approval in string.gmatch(redis.call('HGET', run.keys.gate_data .. id, 'g') or '', '%S+') do
    redis.call('DEL', run.keys.gate_approval .. approval)
    redis.call('ZREM', run.keys.gate_asked, approval)
    redis.call('ZREM', run.keys.gate_answered, approval)
  end
  if inst and redis.call('HINCRBY', run.keys.gate_bundles, inst.bundle, -1) <= 0 then
    redis.call('HDEL', run.keys.gate_bundles, inst.bundle)
    redis.call('UNLINK', run.keys.gate_bundle .. inst.bundle)
  end
  local result = run.keys.gate_result .. id .. '_'
  redis.call('UNLINK', run.keys.run .. id, run.keys.run_spec .. id, run.keys.gate_data .. id,
    run.keys.gate_evidence .. id, run.keys.gate_waiters .. id, result .. 1, result .. 2, result .. 3, result .. 4)
  redis.call('ZREM', run.keys.gate_expiry, id)
  redis.call('ZREM', run.keys.gate_index, id)
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
