--[[
purpose:   Wakes a relay: a project's outbox has jobs.
guarantee: If more projects are noted than fit, the first ones are kept; the sweep finds the others.
args:      project most
reply:     nothing
errors:    none
owns:      relay_wakeups
full:      it stores a short name; the jobs were written before
--]]
return function(run, project, most)
  local waiting = redis.call('RPUSH', run.keys.relay_wakeups, project)
  if waiting > tonumber(most) then redis.call('RPOP', run.keys.relay_wakeups) end
  return true
end
