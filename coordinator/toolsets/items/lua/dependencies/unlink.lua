-- Removes dependency edges.
local batch = require 'batch'
local blockers = require 'blockers'
local graph = require 'graph'

local EDGES_AT_ONCE = blockers.EDGES_AT_ONCE

local unlink = {}

-- Removes edges of an item (fields and values in turn, as stored) at both ends, and updates counts of blockers. If the
-- item is `leaving`, the caller deletes the item with its own side of the edges.
function unlink.remove(run, near, edges, leaving)
  local ends, own, ids, counts = {}, {}, {}, {} -- fields at the other ends, by item; fields here; keys; by how many
  for n = 1, #edges, 2 do
    local field, value = edges[n], edges[n + 1]
    local code, other = string.sub(field, 1, 1), string.sub(field, 2)
    local fields = batch.list_in(ends, other)
    own[#own + 1], fields[#fields + 1] = field, graph.code_at_other_end(code) .. near.id
    ids[#ids + 1] = run.keys.dependency .. string.sub(value, 1, 32)
    if graph.blocks_other(code) and not graph.satisfies(near.role, graph.threshold_of(value)) then
      counts[other] = (counts[other] or 0) - 1
    elseif not leaving and graph.waits_for(run, code, other, value) then
      counts[near.id] = (counts[near.id] or 0) - 1
    end
  end
  for item_id, fields in pairs(ends) do batch.call('HDEL', run.keys.edges .. item_id, fields) end
  if not leaving then batch.call('HDEL', run.keys.edges .. near.id, own) end
  batch.call('DEL', nil, ids)
  blockers.change_counts(run, counts)
end

-- The edges of an item (fields and values in turn), at most as many as are removed together.
function unlink.next_edges(run, id)
  local key = run.keys.edges .. id
  if redis.call('HLEN', key) <= EDGES_AT_ONCE then return redis.call('HGETALL', key) end
  return redis.call('HRANDFIELD', key, EDGES_AT_ONCE, 'WITHVALUES')
end

return unlink
