--[[
purpose:   A small write with a claim's number of arguments and members in its reply.
guarantee: The key expires after a minute.
args:      name agent item ttl fence
reply:     {item, agent, count, ttl, fence}
errors:    none
owns:      request
--]]
return function(run, name, agent, item, ttl, fence)
  local count = redis.call('INCR', run.keys.request .. name)
  redis.call('PEXPIRE', run.keys.request .. name, 60000)
  return cmsgpack.pack({item, agent, count, tonumber(ttl), tonumber(fence)})
end
