--[[
purpose:   Notes that a process runs and until when this store has kept what it was told, and drops processes that have
           not told so for a while.
guarantee: The times noted are those of this server. Until when rises only.
args:      process seconds
           process = <host>/<slot>; seconds = how long it counts as running without telling so again
reply:     until when, in ms
errors:    none
writes:    processes moment
full:      a name and a number take the place of themselves
--]]
local clock = require 'clock'

return function(run, process, seconds)
  local now = math.floor(run.now / 1000)
  redis.call('ZADD', run.keys.processes, now, process)
  redis.call('ZREMRANGEBYSCORE', run.keys.processes, '-inf', now - seconds)
  local kept_until = math.max(run.now, tonumber(redis.call('GET', run.keys.moment) or 0))
  redis.call('SET', run.keys.moment, clock.whole(kept_until))
  return kept_until
end
