-- @include classes
-- What search and overview show of an item, in the order of the reply struct (ShortView in store/query.py): {id,
-- parent, title, role, label, priority, depth, tags, type, traits}; nil when there is none.
local function short_row(id)
  local parent, title, score, label, depth, tags, type_name, traits =
    unpack(redis.call('HMGET', K_ITEM .. id, 'pa', 't', 'w', 'lb', 'd', 'g', 'y', 'q'))
  if not score then return nil end
  title = title or redis.call('HGET', K_TEXT .. id, 't')
  return {id, parent, title, role_of(score), label, priority_of(score), tonumber(depth), tags, type_name, traits}
end

-- {id, title, depth} of each ancestor, root first, for the parent that a row has.
local known_paths = {}
local function path_to(parent)
  if not parent then return {} end
  if not known_paths[parent] then
    local grandparent, title, depth = unpack(redis.call('HMGET', K_ITEM .. parent, 'pa', 't', 'd'))
    local path = {unpack(path_to(grandparent))}
    path[#path + 1] = {parent, title or redis.call('HGET', K_TEXT .. parent, 't'), tonumber(depth)}
    known_paths[parent] = path
  end
  return known_paths[parent]
end
