--[[
purpose:   Puts a project on a list.
guarantee: The time noted is that of this server. Of `known` the 10,000 that were noted last are kept.
args:      what project
           what = steps | items | known
reply:     nothing
errors:    none
--]]
local projects = require 'projects'

return function(run, what, project)
  projects.note(run, what, project)
  return true
end
