-- @include graph
-- Reading edges in bounded runs. A script gets more to read than one run may take, stops when its
-- budget is spent and says how far it came; the caller goes on from there. A cursor stands inside the
-- edges of one item, '0' at either end. Edges that do not change meanwhile come at least once.

-- One page of an item's edges: the next cursor, then {field, value, field, value ...} as stored.
-- `count` is what a page of many edges aims at; a hundred or so always come at once.
local function edge_page(id, cursor, count)
  return unpack(redis.call('HSCAN', K_EDGES .. id, cursor, 'COUNT', count))
end

local known_heads = {}

-- {title, role, priority} of an item that is only mentioned, or nil: a third of the cost of `load_item`.
local function load_head(id)
  local head = known_heads[id]
  if head then return head end
  local score, title = unpack(redis.call('HMGET', K_ITEM .. id, 'w', 't'))
  if not score then return nil end
  head = {title or redis.call('HGET', K_TEXT .. id, 't'), role_of(score), priority_of(score)}
  known_heads[id] = head
  return head
end

-- Appends to `list` the blockers on one page, satisfied ones too, as {edge field, title, role,
-- threshold mark, satisfied}. Returns the next cursor and how many edges were looked at.
local function blocker_page(id, cursor, count, list)
  local next_cursor, flat = edge_page(id, cursor, count)
  for n = 1, #flat, 2 do
    if blocked_by_other(string.sub(flat[n], 1, 1)) then
      local field, value = flat[n], flat[n + 1]
      local title, role = unpack(load_head(string.sub(field, 2)))
      list[#list + 1] = {field, title, role, string.sub(value, 33, 33), satisfies(role, threshold_of(value))}
    end
  end
  return next_cursor, #flat / 2
end
