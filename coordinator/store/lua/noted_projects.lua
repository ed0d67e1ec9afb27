--[[
purpose:   Lists the projects that need background work, those noted last first.
guarantee: Changes nothing. Leaves out what cannot be the name of a project.
args:      what seconds most
           what = steps | items; seconds = only those noted within so many, 0: all; most = so many of them, -1: all
reply:     {name, seconds since it was noted}...
errors:    none
--]]
-- @include project_list
-- @include project_name
local now = redis.call('TIME')[1]
local from = tonumber(seconds) > 0 and now - seconds or '-inf'
local found = redis.call('ZRANGE', list, '+inf', from, 'BYSCORE', 'REV', 'LIMIT', 0, most, 'WITHSCORES')
local noted = {}
for i = 1, #found, 2 do
  if is_project(found[i]) then noted[#noted + 1] = {found[i], now - found[i + 1]} end
end
return cmsgpack.pack(noted)
