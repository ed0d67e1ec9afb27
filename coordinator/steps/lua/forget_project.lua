--[[
purpose:   Has nobody look after a project until it is noted again.
guarantee: A project that was noted within the last seconds stays.
args:      project seconds
reply:     whether it was dropped
errors:    none
full:      deleting frees memory
--]]
-- @include keys
local noted = redis.call('ZSCORE', K_STEP_PROJECTS, project)
if not noted or tonumber(noted) > redis.call('TIME')[1] - seconds then return 0 end
return redis.call('ZREM', K_STEP_PROJECTS, project)
