--[[
purpose:   Deletes finished flows whose retention has expired.
guarantee: At most `batch` of them per call, each with all its data.
args:      retention_ms batch
reply:     {how many were deleted, how many finished ones remain}
errors:    none
full:      deleting frees memory
--]]
local clock = require 'clock'
local flows = require 'flows'

return function(run, retention_ms, batch)
  local before = clock.whole(run.now - retention_ms)
  local old = redis.call('ZRANGEBYSCORE', run.keys.ended, '-inf', before, 'LIMIT', 0, batch)
  for _, id in ipairs(old) do flows.forget(run, id) end
  return cmsgpack.pack({#old, redis.call('ZCARD', run.keys.ended)})
end
