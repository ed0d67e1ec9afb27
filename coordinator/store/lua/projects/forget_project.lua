--[[
purpose:   Takes a project off a list, until it is noted again.
guarantee: A project that was noted within the last `seconds` stays.
args:      what project seconds
           what = steps | items | known
reply:     whether it was taken off
errors:    none
full:      deleting frees memory
--]]
local projects = require 'projects'

return function(run, what, project, seconds)
  return projects.forget(run, what, project, seconds)
end
