--[[
purpose:   Puts a project on a list.
guarantee: The time noted is that of this server. Of `known` the 10,000 that were noted last are kept.
args:      what project
           what = steps | items | known
reply:     nothing
errors:    none
writes:    step_projects item_projects known_projects
--]]
local projects = require 'projects'

local KNOWN_MAX = 10000

return function(run, what, project)
  local list = projects.list_of(run, what)
  if redis.call('ZADD', list, math.floor(run.now / 1000), project) == 1 and what == 'known' then
    redis.call('ZREMRANGEBYRANK', list, 0, -KNOWN_MAX - 1)
  end
  return true
end
