--[[
purpose:   Notes that a process runs, and drops those that have not told so for a while.
guarantee: The time noted is that of this server.
args:      process seconds
           process = <host>/<slot>; seconds = how long it counts as running without telling so again
reply:     nothing
errors:    none
full:      a name takes the place of itself
--]]
-- @include keys
local now = redis.call('TIME')[1]
redis.call('ZADD', K_PROCESSES, now, process)
redis.call('ZREMRANGEBYSCORE', K_PROCESSES, '-inf', now - seconds)
return true
