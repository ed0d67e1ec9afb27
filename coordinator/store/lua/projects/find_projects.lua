--[[
purpose:   Lists projects whose names begin with a text, those noted last first.
guarantee: Looks at the last projects of each list only, so it is bounded, and may leave out some that are long idle.
args:      prefix most
reply:     {names, whether there are or may be more}
errors:    none
--]]
local projects = require 'projects'
local read = require 'read'

local LAST = 1000 -- of each list

return function(run, prefix, most)
  return read(run, function()
    local found, seen, more = {}, {}, false
    most = tonumber(most)
    for _, what in ipairs({'items', 'steps', 'known'}) do
      local names = redis.call('ZRANGE', projects.list_of(run, what), 0, LAST - 1, 'REV')
      more = more or #names == LAST
      for _, name in ipairs(names) do
        if string.sub(name, 1, #prefix) == prefix and not seen[name] and projects.is_project(name) then
          seen[name] = true
          found[#found + 1] = name
        end
      end
    end
    more = more or #found > most
    while #found > most do found[#found] = nil end
    return {found, more}
  end)
end
