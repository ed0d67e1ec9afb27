--[[
purpose:   Takes a project from the list of those that have items.
guarantee: One that was noted again since stays.
args:      project noted
           noted = when it was, in s, as the list had it
reply:     whether it was taken away
errors:    none
full:      deleting frees memory
--]]
-- @include keys
if tonumber(redis.call('ZSCORE', K_ITEM_PROJECTS, project) or '') ~= tonumber(noted) then return 0 end
return redis.call('ZREM', K_ITEM_PROJECTS, project)
