--[[
purpose:   Deletes finished flows whose retention has expired.
guarantee: At most `batch` of them per call, each with all its data.
args:      retention_ms batch
reply:     {how many were deleted, how many finished ones remain}
errors:    none
writes:    run run_spec history results flows owned ended
full:      deleting frees memory
--]]
local clock = require 'clock'

local function forget(run, id)
  local status, creator_hash = unpack(redis.call('HMGET', run.keys.run .. id, 's', 'h'))
  if status then
    redis.call('ZREM', run.keys.flows .. status, id)
    redis.call('ZREM', run.keys.owned .. creator_hash, id)
  end
  redis.call('UNLINK', run.keys.run .. id, run.keys.run_spec .. id, run.keys.history .. id, run.keys.results .. id)
  redis.call('ZREM', run.keys.ended, id)
end

return function(run, retention_ms, batch)
  local before = clock.whole(run.now - retention_ms)
  local old = redis.call('ZRANGEBYSCORE', run.keys.ended, '-inf', before, 'LIMIT', 0, batch)
  for _, id in ipairs(old) do forget(run, id) end
  return cmsgpack.pack({#old, redis.call('ZCARD', run.keys.ended)})
end
