--[[
purpose:   Notes that a process runs and until when this store has kept what it was told, and drops processes that have
           not told so for a while.
guarantee: The times noted are those of this server. Until when rises only.
args:      process seconds
           process = <host>/<slot>; seconds = how long it counts as running without telling so again
reply:     until when, in ms
errors:    none
full:      a name and a number take the place of themselves
--]]
-- @include keys
-- @include clock
local at = server_time()
local now = math.floor(at / 1000)
redis.call('ZADD', K_PROCESSES, now, process)
redis.call('ZREMRANGEBYSCORE', K_PROCESSES, '-inf', now - seconds)
at = math.max(at, tonumber(redis.call('GET', K_MOMENT) or 0))
redis.call('SET', K_MOMENT, whole(at))
return at
