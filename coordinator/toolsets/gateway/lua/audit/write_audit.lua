--[[
purpose:   Appends audit entries that belong to no change: refusals, discoveries, reloads.
guarantee: In the order given.
args:      run.events_max workflow operation actor entries
           entries = packed {type, payload as JSON}...
reply:     nothing
errors:    none
--]]
local audit = require 'audit'

return function(run, workflow, operation, actor, entries)
  for _, entry in ipairs(cmsgpack.unpack(entries)) do audit.add(run, workflow, operation, actor, unpack(entry)) end
  return true
end
