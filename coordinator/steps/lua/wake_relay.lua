--[[
purpose:   Tells the relay of some worker that a project's outbox has jobs.
guarantee: Of more projects than fit, those told first are kept; the sweep finds the others.
args:      project most
reply:     nothing
errors:    none
full:      a name; the jobs were written before
--]]
-- @include keys
if redis.call('RPUSH', K_RELAY_WAKEUPS, project) > tonumber(most) then redis.call('RPOP', K_RELAY_WAKEUPS) end
return true
