-- Whether demands (demands.lua) can be met beside those of others.
-- owns: none
local demands = require 'demands'

local fitting = {}

local NONE = {'', 0, 0, 0, 0}

-- The same at one node; `units` = its capacity, nil: it has no limit; then what others have there (numbers).
function fitting.fits(node, units, exclusive, shared, exclusive_below, shared_below)
  local x, s, below, s_below = node[2], node[3], node[4], node[5]
  if x > 0 and shared + shared_below > 0 or below > 0 and shared > 0 then return false end
  if s > 0 and exclusive + exclusive_below > 0 or s_below > 0 and exclusive > 0 then return false end
  if x + below == 0 then return true end
  if units then return exclusive + exclusive_below + x + below <= units end
  return exclusive == 0 and (x == 0 or exclusive_below == 0)
end

-- The numbers of a text of demands at a node, as a list from its second element on.
function fitting.at(text, name)
  return demands.nodes_of(text).at[name] or NONE
end

-- Whether demands can be met beside these others alone, as far as capacities go.
function fitting.suit(run, text, others)
  local capacities = demands.limits(run)
  for _, node in ipairs(demands.nodes_of(text)) do
    local sum = {0, 0, 0, 0}
    for _, other in ipairs(others) do
      local its = fitting.at(other, node[1])
      for n = 1, 4 do sum[n] = sum[n] + its[n + 1] end
    end
    if not fitting.fits(node, capacities[node[1]], unpack(sum)) then return false end
  end
  return true
end

return fitting
