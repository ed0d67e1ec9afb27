--[[
purpose:   Lists the processes that run.
guarantee: Changes nothing.
args:      seconds
           seconds = how long a process counts as running after it was noted
reply:     {<host>/<slot>}...
errors:    none
writes:    none
--]]
local read = require 'read'

return function(run, seconds)
  return read(run, function()
    local since = math.floor(run.now / 1000) - seconds
    return redis.call('ZRANGE', run.keys.processes, '(' .. since, '+inf', 'BYSCORE')
  end)
end
