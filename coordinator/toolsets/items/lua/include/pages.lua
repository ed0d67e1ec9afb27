-- @include graph
-- Reading edges in bounded runs. A script gets more to read than one run may take, stops when its
-- budget is spent and says how far it came; the caller goes on from there. A cursor stands inside the
-- edges of one item, '0' at either end. Edges that do not change meanwhile come at least once.

-- One page of an item's edges: the next cursor, then {field, value, field, value ...} as stored.
-- `count` is what a page of many edges aims at; a hundred or so always come at once.
local function edge_page(id, cursor, count)
  return unpack(redis.call('HSCAN', K_EDGES .. id, cursor, 'COUNT', count))
end

local heads = {}

-- {title, role, priority} of an item that is only mentioned, or nil: a third of the cost of `load_item`.
local function load_head(id)
  local known = heads[id]
  if known then return known end
  local w, t = unpack(redis.call('HMGET', K_ITEM .. id, 'w', 't'))
  if not w then return nil end
  known = {t or redis.call('HGET', K_TEXT .. id, 't'), role_of(w), priority_of(w)}
  heads[id] = known
  return known
end

-- Appends to `list` the blockers on one page, satisfied ones too, as {edge field, title, role,
-- threshold mark, satisfied}. Returns the next cursor and how many edges were looked at.
local function blocker_page(id, cursor, count, list)
  local next_cursor, flat = edge_page(id, cursor, count)
  for n = 1, #flat, 2 do
    if blocked_by_other(string.sub(flat[n], 1, 1)) then
      local blocker, value = load_head(string.sub(flat[n], 2)), flat[n + 1]
      local done = satisfies(blocker[2], threshold_of(value))
      list[#list + 1] = {flat[n], blocker[1], blocker[2], string.sub(value, 33, 33), done}
    end
  end
  return next_cursor, #flat / 2
end
