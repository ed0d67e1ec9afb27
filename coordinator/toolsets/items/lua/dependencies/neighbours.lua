-- The neighbours of an item in the graph, and its level (levels.lua). In a call: counts, by id: how many edges
-- are stored; ids, by id: the neighbours.
-- owns: item.lv
local graph = require 'graph'

local neighbours = {}

local function own_of(run)
  run[neighbours] = run[neighbours] or {counts = {}, ids = {}}
  return run[neighbours]
end

-- How many stored edges an item has.
function neighbours.edges_stored(run, id)
  local own = own_of(run)
  local count = own.counts[id] or redis.call('HLEN', run.keys.edges .. id)
  own.counts[id] = count
  return count
end

-- The stored ids that an item blocks (1), or that block it (-1). Read once for all edges of a batch.
function neighbours.of(run, id)
  local own = own_of(run)
  if not own.ids[id] then
    local blocked, blockers = {}, {}
    if own.counts[id] ~= 0 then
      graph.each_edge(run, id, function(code, other)
        if graph.blocks_other(code) then blocked[#blocked + 1] = other end
        if graph.blocked_by_other(code) then blockers[#blockers + 1] = other end
      end)
    end
    own.ids[id] = {[1] = blocked, [-1] = blockers}
  end
  return own.ids[id]
end

-- 0 if none is stored.
function neighbours.load_level(run, id)
  return tonumber(redis.call('HGET', run.keys.item .. id, 'lv') or 0)
end

function neighbours.store_level(run, id, level)
  if level ~= 0 then
    redis.call('HSET', run.keys.item .. id, 'lv', level)
  else
    redis.call('HDEL', run.keys.item .. id, 'lv')
  end
end

return neighbours
