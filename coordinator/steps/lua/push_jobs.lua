--[[
purpose:   Puts pointers to steps of one project into their queues: the relay's half of a handoff between two Redis
           servers, and the repair of vanished jobs.
guarantee: A job that is there already stays as it is, so a replay changes nothing.
args:      run.engine project force jobs...
           force = 1: the job is missing from its list, whatever its hash says; jobs = list and job id, and so on
reply:     how many were pushed
errors:    none
--]]
local handoff = require 'handoff'

return function(run, project, force, jobs)
  local pushed = 0
  for n = 1, #jobs, 2 do
    local list, id = jobs[n], jobs[n + 1]
    if force == '1' or redis.call('EXISTS', run.env.rq .. 'job:' .. id) == 0 then
      handoff.push_job(run, id, list, project)
      pushed = pushed + 1
    end
  end
  return pushed
end
