-- @include classes
-- What search and overview show of an item, in the order of the reply struct: {id, parent, title, role,
-- label, priority, depth, tags, type, traits}; nil when there is none.
local function short_row(id)
  local values = redis.call('HMGET', K_ITEM .. id, 'pa', 't', 'w', 'lb', 'd', 'g', 'y', 'q')
  if not values[3] then return nil end
  local title_shown = values[2] or redis.call('HGET', K_TEXT .. id, 't')
  return {id, values[1], title_shown, role_of(values[3]), values[4], priority_of(values[3]), tonumber(values[5]), values[6], values[7], values[8]}
end

-- {id, title, depth} of each ancestor, root first, for the parent that a row has.
local paths_known = {}
local function path_to(parent)
  if not parent then return {} end
  if not paths_known[parent] then
    local values = redis.call('HMGET', K_ITEM .. parent, 'pa', 't', 'd')
    local path = {unpack(path_to(values[1]))}
    path[#path + 1] = {parent, values[2] or redis.call('HGET', K_TEXT .. parent, 't'), tonumber(values[3])}
    paths_known[parent] = path
  end
  return paths_known[parent]
end
