-- @include blockers
-- Removing dependency edges.

-- Removes edges of an item (fields and values in turn, as stored) at both ends, and updates counts of blockers. If the
-- item is `leaving`, the caller deletes the item with its own side of the edges.
local function remove_edges(near, edges, leaving)
  local ends, own, ids, counts = {}, {}, {}, {} -- fields at the other ends, by item; fields here; keys; by how many
  for n = 1, #edges, 2 do
    local field, value = edges[n], edges[n + 1]
    local code, other = string.sub(field, 1, 1), string.sub(field, 2)
    local fields = get_or_add_list(ends, other)
    own[#own + 1], fields[#fields + 1] = field, code_at_other_end(code) .. near.id
    ids[#ids + 1] = K_DEPENDENCY .. string.sub(value, 1, 32)
    if blocks_other(code) and not satisfies(near.role, threshold_of(value)) then
      counts[other] = (counts[other] or 0) - 1
    elseif blocked_by_other(code) and not leaving and not satisfies(load_role(other), threshold_of(value)) then
      counts[near.id] = (counts[near.id] or 0) - 1
    end
  end
  for item_id, fields in pairs(ends) do call_in_parts('HDEL', K_EDGES .. item_id, fields) end
  if not leaving then call_in_parts('HDEL', K_EDGES .. near.id, own) end
  call_in_parts('DEL', nil, ids)
  change_blocker_counts(counts)
end

-- The edges of an item, or as many of them as are removed together.
local function edges_to_remove(id)
  if redis.call('HLEN', K_EDGES .. id) <= EDGES_AT_ONCE then return redis.call('HGETALL', K_EDGES .. id) end
  return redis.call('HRANDFIELD', K_EDGES .. id, EDGES_AT_ONCE, 'WITHVALUES')
end
