--[[
purpose:   Takes a project off a list, until it is noted again.
guarantee: A project that was noted within the last `seconds` stays.
args:      what project seconds
           what = steps | items
reply:     whether it was taken off
errors:    none
full:      deleting frees memory
--]]
-- @include project_list
local noted = redis.call('ZSCORE', list, project)
if not noted or tonumber(noted) > redis.call('TIME')[1] - seconds then return 0 end
return redis.call('ZREM', list, project)
