--[[
purpose:   Notes that a project has something to sweep.
guarantee: By the time of this server.
args:      project
reply:     nothing
errors:    none
--]]
-- @include keys
redis.call('ZADD', K_STEP_PROJECTS, redis.call('TIME')[1], project)
return true
