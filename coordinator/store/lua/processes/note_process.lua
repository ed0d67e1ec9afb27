--[[
purpose:   Notes that a process runs, and the latest time that this store knows; drops stale processes.
guarantee: The times noted are those of this server. The latest one never falls.
args:      process seconds status status_seconds
           process = <host>/<slot>; seconds = how long it counts as running after it was noted; status = what it
           reports of itself, '': nothing new; status_seconds = for how long that is kept
reply:     the latest time, in ms
errors:    none
owns:      processes process_status moment
full:      it overwrites a short name, a short text and a number
--]]
local clock = require 'clock'

return function(run, process, seconds, status, status_seconds)
  local now = math.floor(run.now / 1000)
  redis.call('ZADD', run.keys.processes, now, process)
  redis.call('ZREMRANGEBYSCORE', run.keys.processes, '-inf', now - seconds)
  if status ~= '' then redis.call('SET', run.keys.process_status .. process, status, 'EX', status_seconds) end
  local kept_until = math.max(run.now, tonumber(redis.call('GET', run.keys.moment) or 0))
  redis.call('SET', run.keys.moment, clock.whole(kept_until))
  return kept_until
end
