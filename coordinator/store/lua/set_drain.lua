--[[
purpose:   Asks processes to take no new work, or ends that.
guarantee: Asking again keeps the time of the first request.
args:      scope on
           scope = fleet, host:<name> or process:<host>/<slot>; on = 1 or 0
reply:     rows {scope, since ms}: all that is asked for now
errors:    none
writes:    drains
full:      a name; and a drain can be ended
--]]
local clock = require 'clock'
local drains = require 'drains'

return function(run, scope, on)
  if on == '1' then
    redis.call('HSETNX', run.keys.drains, scope, clock.whole(run.now))
  else
    redis.call('HDEL', run.keys.drains, scope)
  end
  return cmsgpack.pack(drains.rows(run))
end
