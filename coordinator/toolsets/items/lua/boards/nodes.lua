-- Items as nodes of graphs that people see, and the blocking edges among them.
-- owns: none
local classes = require 'classes'
local graph = require 'graph'
local items = require 'items'

local nodes = {}

local EDGES_MAX = 3000 -- of the items of a graph, read at a time

-- An item as Node (store/boards/tree_graph.py); nil if there is none.
local function node_of(run, id)
  local key = run.keys.item .. id
  local record, title, blockers, parent, below = unpack(redis.call('HMGET', key, 'w', 't', 'nb', 'pa', 'ch'))
  if not record then return nil end
  local item = {id = id, t = title, ch = below}
  items.unpack_record(item, record)
  local claim = item.role ~= classes.TERMINAL and item or {} -- what has ended is held by nobody
  return {
    id, items.title_of(run, item), item.role, classes.shown_state(item), classes.priority_of(item.score),
    classes.complexity_of(item.score), claim.holder or '', claim.expires or 0, tonumber(blockers) or 0, parent,
  }
end

-- The nodes of those of some items that exist.
function nodes.of(run, ids)
  local list = {}
  for _, id in ipairs(ids) do list[#list + 1] = node_of(run, id) end
  return list
end

-- The blocking edges among some nodes as GraphEdge (store/boards/tree_graph.py); and whether these are all.
function nodes.edges(run, list)
  local places, edges, looked = {}, {}, 0
  for n, node in ipairs(list) do places[node[1]] = n - 1 end
  for n, node in ipairs(list) do
    if looked >= EDGES_MAX then return edges, false end
    graph.each_edge(run, node[1], function(code, other, value)
      looked = looked + 1
      if not (graph.blocks_other(code) and places[other]) then return end
      local needed = graph.threshold_of(value)
      edges[#edges + 1] = {n - 1, places[other], needed, graph.satisfies(node[3], needed)}
    end)
  end
  return edges, true
end

return nodes
