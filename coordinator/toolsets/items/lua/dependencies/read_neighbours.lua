--[[
purpose:   Reads the dependents or the blockers of items, with their levels.
guarantee: Ends after about 300 edges; the caller continues from there.
args:      direction ids added
           direction = 1 what they block, -1 what blocks them; ids = packed list; added = packed {id -> list of ids
           that edges lead to which are not there yet}
reply:     of the first ids lists of Move (rules/dependencies/levels.py)
errors:    none
--]]
local neighbours = require 'neighbours'
local read = require 'read'

local EDGES_MAX = 300

-- Appends {id, level} of each of the ids.
local function add_levels(run, found, ids)
  for _, id in ipairs(ids) do found[#found + 1] = {id, neighbours.load_level(run, id)} end
end

return function(run, direction, ids, added)
  return read(run, function()
    local reply, left, further = {}, EDGES_MAX, cmsgpack.unpack(added)
    for n, id in ipairs(cmsgpack.unpack(ids)) do
      if left <= 0 then break end
      local found = {}
      add_levels(run, found, neighbours.of(run, id)[tonumber(direction)])
      add_levels(run, found, further[id] or {})
      reply[n], left = found, left - 1 - neighbours.edges_stored(run, id)
    end
    return reply
  end)
end
