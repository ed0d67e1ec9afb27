--[[
purpose:   Takes steps of this project whose pointers the worker has popped from a queue in another Redis,
           or was given by a stock RQ worker.
guarantee: As take_steps.
args:      engine jobs...
           jobs = ids of RQ jobs
reply:     what include/take.lua says, no results
errors:    none
--]]
-- @include take
for _, id in ipairs(jobs) do claim(id, P) end
return taken_reply({}, false)
