--[[
purpose:   Finds the jobs whose steps still wait for a worker.
guarantee: Changes nothing.
args:      jobs...
           jobs = ids of RQ jobs of this project
reply:     those whose step waits under the attempt that they point to
errors:    none
--]]
local read = require 'read'
local steps = require 'steps'

return function(run, jobs)
  return read(run, function()
    local waiting = {}
    for _, job in ipairs(jobs) do
      local _, step, attempt = steps.parse_job(job)
      local st = redis.call('HMGET', run.keys.step .. step, 's', 'f')
      if st[1] == 'q' and st[2] == attempt then waiting[#waiting + 1] = job end
    end
    return waiting
  end)
end
