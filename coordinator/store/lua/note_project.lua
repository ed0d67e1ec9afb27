--[[
purpose:   Puts a project on the list of those that need background work.
guarantee: The time noted is that of this server.
args:      what project
           what = steps | items
reply:     nothing
errors:    none
writes:    step_projects item_projects
--]]
local projects = require 'projects'

return function(run, what, project)
  redis.call('ZADD', projects.list_of(run, what), math.floor(run.now / 1000), project)
  return true
end
