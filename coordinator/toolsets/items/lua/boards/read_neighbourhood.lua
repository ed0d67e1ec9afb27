--[[
purpose:   Reads an item, the items that block it and those that it blocks as a graph, for people.
guarantee: A consistent snapshot, bounded by the edges of one item (600) and some 3,000 more.
args:      id most
reply:     Neighbourhood (store/boards/tree_graph.py)
errors:    NOT_FOUND
--]]
local graph = require 'graph'
local items = require 'items'
local nodes = require 'nodes'
local read = require 'read'

return function(run, id, most)
  return read(run, function()
    local item = items.load(run, id)
    if not item then return redis.error_reply('FLEET NOT_FOUND') end
    local ids, seen, sides = {id}, {[id] = true}, {{}, {}}
    graph.each_edge(run, id, function(code, other)
      local side = graph.blocked_by_other(code) and 1 or graph.blocks_other(code) and 2
      if not side or seen[other] then return end
      seen[other] = true
      table.insert(sides[side], other)
    end)
    for _, side in ipairs(sides) do
      table.sort(side)
      for n = 1, math.min(#side, tonumber(most)) do ids[#ids + 1] = side[n] end
    end
    local list = nodes.of(run, ids)
    local edges, all_edges = nodes.edges(run, list)
    return {run.now, #sides[1], #sides[2], list, edges, all_edges}
  end)
end
