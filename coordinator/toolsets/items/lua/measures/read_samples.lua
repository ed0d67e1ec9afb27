--[[
purpose:   Reads the last samples of a project's items.
guarantee: Changes nothing. Reads as many rows as are asked for.
args:      hour day
           how many rows of each list, at least 1: one per 10 s, one per minute
reply:     Samples (store/measures/samples.py), each list as JSON
errors:    none
--]]
local read = require 'read'

local function rows(run, step, count)
  return '[' .. table.concat(redis.call('LRANGE', run.keys.samples .. step, -count, -1), ',') .. ']'
end

return function(run, hour, day)
  return read(run, function()
    return {run.now, rows(run, 10, hour), rows(run, 60, day)}
  end)
end
