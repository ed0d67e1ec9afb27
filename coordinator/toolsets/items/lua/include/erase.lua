-- @include unlink
-- @include claims

local left_scopes = {} -- by scope, the ids that this run has removed and that are still ranked there
local spared = {} -- by id, the edges that go with their items

-- An edge by which the item waits, nil where it waits for nothing: what waits may not become ready while it goes.
local function last_blocker(it)
  if it.nb and not spared[it.id] then
    each_edge(it.id, function(code, other, value)
      if blocked_by_other(code) and not satisfies(role_at(other), threshold(value)) then spared[it.id] = code .. other end
    end)
  end
  return spared[it.id]
end

local function spare(edges, field)
  for n = 1, #edges, 2 do
    if edges[n] == field then
      table.remove(edges, n)
      table.remove(edges, n)
      return
    end
  end
end

-- Removes one item that has no children, with its claim, edges, notes and index entries; `unrank_erased` is to
-- follow. Dependents lose a blocker and may become ready. Of very many edges it removes some, and leaves the item.
-- Returns whether it is gone, and how many edges and notes were removed.
local function erase(it, cap)
  local id = it.id
  local edges = some_edges(id)
  if redis.call('HLEN', K_EDGES .. id) > AT_ONCE then
    spare(edges, last_blocker(it))
    unlink(it, edges)
    return false, AT_ONCE
  end
  if it.cb then unclaim(it, server_time()) end
  local notes = redis.call('HVALS', K_NOTES .. id)
  if edges[1] then unlink(it, edges, true) end
  redis.call('ZREM', K_RANKED .. 'p' .. (it.pa or ''), id)
  take_out(it, it.pa)
  for _, scope in ipairs(scopes(it)) do table.insert(list_at(left_scopes, scope), id) end
  redis.call('ZREM', K_PREFIXES .. string.sub(id, 1, 4), string.sub(id, 5))
  local gone = {K_ITEM .. id, K_TEXT .. id, K_EDGES .. id, K_NOTES .. id}
  for _, note in ipairs(notes) do gone[#gone + 1] = K_NOTE .. string.sub(note, 1, 32) end
  in_parts('DEL', nil, gone)
  loaded[id] = nil
  emit(cap, 'delete', id)
  return true, #edges / 2 + #notes
end

local function unrank_erased()
  for scope, ids in pairs(left_scopes) do
    if string.sub(scope, 1, 1) ~= 'p' then in_parts('ZREM', K_RANKED .. scope, ids) end
  end
end
