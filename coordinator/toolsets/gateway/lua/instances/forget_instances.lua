--[[
purpose:   Deletes instances that ended long ago, and idle sessions.
guarantee: At most `batch` of them per call, each with all its data; definitions go with their last instance.
           Instances with an operation in progress are postponed.
args:      run.engine batch
reply:     {how many were deleted, whether any remain, due now or later}
errors:    none
full:      deleting frees memory
--]]
local approvals = require 'approvals'
local bundles = require 'bundles'
local instance_data = require 'instance_data'
local instances = require 'instances'
local owners = require 'owners'
local retention = require 'retention'
local waiters = require 'waiters'

local BUSY_MS = 60000 -- postpones an instance with an operation in progress

-- Deletes an instance with all its data. `inst` nil: its hash was deleted before.
local function forget(run, id, inst)
  approvals.forget(run, id)
  if inst then bundles.release(run, inst.bundle) end
  owners.forget(run, id)
  instance_data.forget(run, id)
  waiters.forget(run, id)
  retention.forget(run, id)
  instances.unlist(run, id)
end

return function(run, batch)
  local ids = redis.call('ZRANGEBYSCORE', run.keys.gate_expiry, '-inf', run.at, 'LIMIT', 0, batch)
  for _, id in ipairs(ids) do
    local inst = instances.load(run, id)
    if inst and inst.operation then
      retention.keep(run, id, BUSY_MS)
    else
      forget(run, id, inst)
    end
  end
  return cmsgpack.pack({#ids, redis.call('EXISTS', run.keys.gate_expiry) == 1})
end
