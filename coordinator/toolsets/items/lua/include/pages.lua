-- @include graph
-- Reading edges in bounded runs. A script gets more to read than one run may take, stops when its
-- budget is spent and says how far it came; the caller goes on from there. A cursor stands inside the
-- edges of one item, '0' at either end. Edges that do not change meanwhile come at least once.

local EDGE_PAGE = 500

-- One page of an item's edges: the next cursor, then field, value, field, value ... as stored.
local function edge_page(id, cursor)
  return unpack(redis.call('HSCAN', K_EDGES .. id, cursor, 'COUNT', EDGE_PAGE))
end

-- Appends to `list` the blockers on one page, satisfied ones too, as {edge field, title, role,
-- threshold mark, satisfied}. Returns the next cursor and how many edges were looked at.
local function blocker_page(id, cursor, list)
  local next_cursor, flat = edge_page(id, cursor)
  for n = 1, #flat, 2 do
    if blocked_by_other(string.sub(flat[n], 1, 1)) then
      local blocker, value = load(string.sub(flat[n], 2)), flat[n + 1]
      local done = satisfies(blocker.role, threshold(value))
      list[#list + 1] = {flat[n], title(blocker), blocker.role, string.sub(value, 33, 33), done}
    end
  end
  return next_cursor, #flat / 2
end
