-- Removes dependency edges.
-- owns: none
local batch = require 'batch'
local blockers = require 'blockers'
local graph = require 'graph'

local EDGES_AT_ONCE = blockers.EDGES_AT_ONCE

local unlink = {}

-- Removes edges of an item (fields and values in turn, as stored) at both ends, and updates counts of blockers. If the
-- item is `leaving`, it loses all of its edges.
function unlink.remove(run, near, edges, leaving)
  local ends, ids, counts = {}, {}, {} -- fields by item; of the edges; by how many
  for n = 1, #edges, 2 do
    local field, value = edges[n], edges[n + 1]
    local code, other = string.sub(field, 1, 1), string.sub(field, 2)
    table.insert(batch.list_in(ends, near.id), field)
    table.insert(batch.list_in(ends, other), graph.code_at_other_end(code) .. near.id)
    ids[#ids + 1] = string.sub(value, 1, 32)
    if graph.blocks_other(code) and not graph.satisfies(near.role, graph.threshold_of(value)) then
      counts[other] = (counts[other] or 0) - 1
    elseif not leaving and graph.waits_for(run, code, other, value) then
      counts[near.id] = (counts[near.id] or 0) - 1
    end
  end
  graph.remove(run, ends, ids)
  blockers.change_counts(run, counts)
end

-- The edges of an item (fields and values in turn), at most as many as are removed together.
function unlink.next_edges(run, id)
  local key = run.keys.edges .. id
  if redis.call('HLEN', key) <= EDGES_AT_ONCE then return redis.call('HGETALL', key) end
  return redis.call('HRANDFIELD', key, EDGES_AT_ONCE, 'WITHVALUES')
end

return unlink
