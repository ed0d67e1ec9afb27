-- @include unlink
-- @include claims
-- Removing items.

local left_in_scopes = {} -- by scope, the ids that this run has removed and that are still indexed there
local spared_edges = {} -- by id, the field of the edge that goes only with its item

-- An edge through which the item waits, or nil. As long as that edge is there, the item cannot become ready while its
-- other edges are removed.
local function spared_edge(item)
  if item.nb and not spared_edges[item.id] then
    each_edge(item.id, function(code, other, value)
      if blocked_by_other(code) and not satisfies(load_role(other), threshold_of(value)) then
        spared_edges[item.id] = code .. other
      end
    end)
  end
  return spared_edges[item.id]
end

-- Takes a field and its value out of a list of them.
local function leave_out(edges, field)
  for n = 1, #edges, 2 do
    if edges[n] == field then
      table.remove(edges, n)
      table.remove(edges, n)
      return
    end
  end
end

-- Removes an item that has no children, with its claim, edges, notes and index entries; `unindex_erased` has to follow,
-- once for all items. Dependents lose a blocker and may become ready. If the item has very many edges, only some of
-- these are removed. Returns whether the item was removed, and how many edges and notes were.
local function erase_item(item, events_max)
  local id = item.id
  local edges = edges_to_remove(id)
  if redis.call('HLEN', K_EDGES .. id) > EDGES_AT_ONCE then
    leave_out(edges, spared_edge(item))
    remove_edges(item, edges)
    return false, EDGES_AT_ONCE
  end
  if item.holder then end_claim(item, server_time()) end
  if item.fence then redis.call('ZREM', K_ABANDONED, id) end
  local notes = redis.call('HVALS', K_NOTES .. id)
  if edges[1] then remove_edges(item, edges, true) end
  redis.call('ZREM', K_RANKED .. 'p' .. (item.pa or ''), id)
  remove_bounds(item, item.pa)
  for _, scope in ipairs(scopes_of(item)) do table.insert(get_or_add_list(left_in_scopes, scope), id) end
  redis.call('ZREM', K_PREFIXES .. string.sub(id, 1, 4), string.sub(id, 5))
  local gone = {K_ITEM .. id, K_TEXT .. id, K_EDGES .. id, K_NOTES .. id}
  for _, note in ipairs(notes) do gone[#gone + 1] = K_NOTE .. string.sub(note, 1, 32) end
  call_in_parts('DEL', nil, gone)
  loaded[id] = nil
  emit(events_max, 'delete', id)
  return true, #edges / 2 + #notes
end

-- Removes the erased items from the scopes that they share with others.
local function unindex_erased()
  for scope, ids in pairs(left_in_scopes) do
    if string.sub(scope, 1, 1) ~= 'p' then call_in_parts('ZREM', K_RANKED .. scope, ids) end
  end
end
