-- @include graph
-- @include claims
-- Removes one item that has no children, with its claim, edges, notes and index entries. Dependents
-- lose a blocker and may become ready.
local function erase(it, cap)
  if it.cb then unclaim(it, server_time()) end
  each_edge(it.id, function(code, other, value) unlink(it, code, load(other), value) end)
  unrank(it)
  take_out(it, it.pa)
  local notes = redis.call('HVALS', K_NOTES .. it.id)
  for _, note in ipairs(notes) do redis.call('DEL', K_NOTE .. string.sub(note, 1, 32)) end
  redis.call('ZREM', K_PREFIXES .. string.sub(it.id, 1, 4), string.sub(it.id, 5))
  redis.call('DEL', K_ITEM .. it.id, K_TEXT .. it.id, K_EDGES .. it.id, K_NOTES .. it.id)
  loaded[it.id] = nil
  emit(cap, 'delete', it.id)
end
