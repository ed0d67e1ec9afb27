--[[
purpose:   Forgets finished flows whose retention is over.
guarantee: At most `batch` of them per run, each with all that it has.
args:      retention_ms batch
reply:     {how many were forgotten, how many finished ones are left}
errors:    none
full:      deleting frees memory
--]]
-- @include keys
-- @include clock
local old = redis.call('ZRANGEBYSCORE', K_ENDED, '-inf', whole(server_time() - retention_ms), 'LIMIT', 0, batch)
for _, id in ipairs(old) do
  local status, owner = unpack(redis.call('HMGET', K_RUN .. id, 's', 'h'))
  if status then
    redis.call('ZREM', K_FLOWS .. status, id)
    redis.call('ZREM', K_OWNED .. owner, id)
  end
  redis.call('UNLINK', K_RUN .. id, K_RUN_SPEC .. id, K_HISTORY .. id, K_RESULTS .. id)
  redis.call('ZREM', K_ENDED, id)
end
return cmsgpack.pack({#old, redis.call('ZCARD', K_ENDED)})
