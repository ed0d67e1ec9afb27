--[[
purpose:   Renews a worker's leases on steps of this project.
guarantee: A step that is no longer this worker's, by its name and the attempt, is left alone and named.
args:      worker lease held...
           worker = its name; lease = ms; held = a step and its attempt, and so on
reply:     the steps that are no longer this worker's
errors:    none
full:      it overwrites scores; without it running steps would count as lost
--]]
local steps = require 'steps'

return function(run, worker, lease, held)
  local ends, lost = run.now + lease, {}
  for n = 1, #held, 2 do
    local st = redis.call('HMGET', run.keys.step .. held[n], 'f', 's', 'w')
    if st[1] == held[n + 1] and st[2] == 'r' and st[3] == worker then
      steps.lease(run, held[n], run.keys.prefix, ends)
    else
      lost[#lost + 1] = held[n]
    end
  end
  return lost
end
