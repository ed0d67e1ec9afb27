--[[
purpose:   Reads items as nodes of a graph that people see, with the blocking edges among them.
guarantee: A consistent snapshot; items that do not exist are left out. The caller sends at most 300; some 3,000 edges
           are read.
args:      ids
           ids = packed list
reply:     {now, nodes, edges, whether these are all}: Node and GraphEdge (store/boards/tree_graph.py)
errors:    none
--]]
local nodes = require 'nodes'
local read = require 'read'

return function(run, ids)
  return read(run, function()
    local list = nodes.of(run, cmsgpack.unpack(ids))
    local edges, all_edges = nodes.edges(run, list)
    return {run.now, list, edges, all_edges}
  end)
end
