--[[
purpose:   Puts a project on the list of those that need background work.
guarantee: The time noted is that of this server.
args:      what project
           what = steps | items
reply:     nothing
errors:    none
--]]
-- @include project_list
redis.call('ZADD', list, redis.call('TIME')[1], project)
return true
