--[[
purpose:   Moves levels of items (include/levels.lua), so that a new edge needs no repair.
guarantee: An item is moved only if everything that it blocks stays above it, and everything that blocks it below it. So
           the levels are a valid order of the graph after each step, wherever it ends.
args:      step moves
           step = 1 up, -1 down; moves = packed {id, level, id, level ..}, the furthest first
reply:     {how many moves were handled, whether all of these items have their new level now}
errors:    none
--]]
-- @include neighbours

local EDGES = 300
local list, up, left = cmsgpack.unpack(moves), tonumber(step), EDGES

local function fits(id, level)
  for _, other in ipairs(neighbours(id)[up]) do
    if up * (load_level(other) - level) <= 0 then return false end
  end
  return true
end

for n = 1, #list, 2 do
  local id, level = list[n], list[n + 1]
  if left <= 0 then return cmsgpack.pack({(n - 1) / 2, true}) end
  if redis.call('EXISTS', K_ITEM .. id) == 1 and up * (level - load_level(id)) > 0 then
    if not fits(id, level) then return cmsgpack.pack({(n - 1) / 2, false}) end
    store_level(id, level)
    left = left - edges_stored(id)
  end
  left = left - 1
end
return cmsgpack.pack({#list / 2, true})
