--[[
purpose:   Notes that a project has something to look after.
guarantee: By the time of this server.
args:      what project
           what = steps | items
reply:     nothing
errors:    none
--]]
-- @include project_list
redis.call('ZADD', list, redis.call('TIME')[1], project)
return true
