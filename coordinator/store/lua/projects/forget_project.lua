--[[
purpose:   Takes a project off a list, until it is noted again.
guarantee: A project that was noted within the last `seconds` stays.
args:      what project seconds
           what = steps | items | known
reply:     whether it was taken off
errors:    none
writes:    step_projects item_projects known_projects
full:      deleting frees memory
--]]
local projects = require 'projects'

return function(run, what, project, seconds)
  local list = projects.list_of(run, what)
  local noted = redis.call('ZSCORE', list, project)
  if not noted or tonumber(noted) > run.now / 1000 - seconds then return 0 end
  return redis.call('ZREM', list, project)
end
