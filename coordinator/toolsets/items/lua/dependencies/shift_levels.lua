--[[
purpose:   Moves levels of items (levels.lua), so that a new edge needs no repair.
guarantee: An item is moved only if everything that it blocks stays above it, and everything that blocks it
           below it. So the levels are a valid order of the graph after each step.
args:      direction moves
           direction = 1 up, -1 down; moves = packed {id, level, id, level ..}, the furthest first
reply:     {how many moves were handled, whether all of these items have their new level now}
errors:    none
--]]
local neighbours = require 'neighbours'

local EDGES_MAX = 300 -- edges read per step

-- Whether the item's neighbours in the direction (1 or -1) stay beyond it at this level.
local function fits(run, id, level, direction)
  for _, other in ipairs(neighbours.of(run, id)[direction]) do
    if direction * (neighbours.load_level(run, other) - level) <= 0 then return false end
  end
  return true
end

return function(run, direction, moves)
  local list, up, left = cmsgpack.unpack(moves), tonumber(direction), EDGES_MAX
  for n = 1, #list, 2 do
    local id, level = list[n], list[n + 1]
    if left <= 0 then return cmsgpack.pack({(n - 1) / 2, true}) end
    if redis.call('EXISTS', run.keys.item .. id) == 1 and up * (level - neighbours.load_level(run, id)) > 0 then
      if not fits(run, id, level, up) then return cmsgpack.pack({(n - 1) / 2, false}) end
      neighbours.store_level(run, id, level)
      left = left - neighbours.edges_stored(run, id)
    end
    left = left - 1
  end
  return cmsgpack.pack({#list / 2, true})
end
