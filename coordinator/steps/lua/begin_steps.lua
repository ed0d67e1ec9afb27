--[[
purpose:   Takes steps of this project whose pointers the worker has popped from a queue in another Redis,
           or was given by a stock RQ worker.
guarantee: As take_steps.
args:      run.engine jobs...
           jobs = ids of RQ jobs
reply:     Taken (store.py), packed, without results; then its specs
errors:    none
--]]
local taking = require 'taking'

return function(run, jobs)
  for _, id in ipairs(jobs) do taking.claim(run, id, run.keys.prefix) end
  return taking.reply(run, {}, false)
end
