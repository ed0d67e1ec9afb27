--[[
purpose:   Notes that a process runs, and the latest time that this store knows; drops stale processes.
guarantee: The times noted are those of this server. The latest one never falls.
args:      process seconds
           process = <host>/<slot>; seconds = how long it counts as running after it was noted
reply:     the latest time, in ms
errors:    none
writes:    processes moment
full:      it overwrites a short name and a number
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
