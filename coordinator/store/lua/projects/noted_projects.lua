--[[
purpose:   Lists the projects that need background work, those noted last first.
guarantee: Changes nothing. Leaves out what cannot be the name of a project.
args:      what seconds most
           what = steps | items | known; seconds = only those noted within so many, 0: all; most = so many of them,
           -1: all
reply:     {name, seconds since it was noted}...
errors:    none
--]]
local projects = require 'projects'
local read = require 'read'

return function(run, what, seconds, most)
  return read(run, function()
    local list, now = projects.list_of(run, what), math.floor(run.now / 1000)
    local from = tonumber(seconds) > 0 and now - seconds or '-inf'
    local found = redis.call('ZRANGE', list, '+inf', from, 'BYSCORE', 'REV', 'LIMIT', 0, most, 'WITHSCORES')
    local noted = {}
    for n = 1, #found, 2 do
      if projects.is_project(found[n]) then noted[#noted + 1] = {found[n], now - found[n + 1]} end
    end
    return noted
  end)
end
