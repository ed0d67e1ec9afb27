--[[
purpose:   Begins or ends a drain: processes in its scope take no new work.
guarantee: Beginning a drain again keeps the time of the first begin.
args:      scope on
           scope = fleet, host:<name> or process:<host>/<slot>; on = 1 or 0
reply:     rows {scope, since ms}: all drains in force
errors:    none
writes:    drains
full:      it stores a short name, or deletes one
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
