--[[
purpose:   Counts the items below items by role, in slices.
guarantee: Each slice is of one moment. Changes nothing.
args:      places...
           places = where to go on: 'id offset depth' of an item whose children are to be counted, offset = how many of
           them were looked at, depth = that of the children
reply:     {counts by role code, further places}
errors:    none
--]]
local items = require 'items'
local read = require 'read'
local tallies = require 'tallies'
local watched = require 'watched'

local LOOKED_MAX = 5000

return function(run, places)
  return read(run, function()
    local counts, further, left = {0, 0, 0, 0, 0}, {}, LOOKED_MAX
    for _, place in ipairs(places) do
      local id, offset, depth = string.match(place, '^(%x+) (%d+) (%d+)$')
      offset, depth, left = tonumber(offset), tonumber(depth), left - 1
      local ids = {}
      if left <= 0 then
        further[#further + 1] = place
      else
        if offset == 0 then
          for role, count in ipairs((tallies.by_role(run, id))) do counts[role] = counts[role] + count end
        end
        local last = depth < items.MAX_DEPTH and offset + left - 1 or -1
        if last >= offset then ids = redis.call('ZRANGE', run.keys.ranked .. 'p' .. id, offset, last) end
      end
      for _, child in ipairs(watched.with_children(run, ids)) do
        further[#further + 1] = child .. ' 0 ' .. depth + 1
      end
      if ids[1] and #ids == left then further[#further + 1] = id .. ' ' .. offset + #ids .. ' ' .. depth end
      left = left - #ids
    end
    return {counts, further}
  end)
end
