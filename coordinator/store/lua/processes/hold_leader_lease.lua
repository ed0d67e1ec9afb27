--[[
purpose:   Takes, renews or gives back a leader lease, whose holder runs a task for the whole fleet.
guarantee: One process has it at a time; it lapses unless its holder renews it in time.
args:      what process milliseconds
           milliseconds = how long it lasts; 0 gives it back
reply:     1 if the process has it now, else 0
errors:    none
full:      a lease is small, and the task that it is for may free memory
--]]
local leader_leases = require 'leader_leases'

return function(run, what, process, milliseconds)
  if milliseconds ~= '0' then return leader_leases.take(run, what, process, milliseconds) and 1 or 0 end
  leader_leases.give_back(run, what, process)
  return 0
end
