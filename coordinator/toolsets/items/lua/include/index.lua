-- @include item
-- The ranked index: puts items where their scores say, and looks into it.

local readied = {} -- ids that this run has put into a ready class (include/serve.lua hands them out)

local function each_tag(tags)
  return string.gmatch(tags, '[^,%s]+')
end

local function scopes(it)
  local list = {'*', 'p' .. (it.pa or '')}
  if it.g then
    for tag in each_tag(it.g) do list[#list + 1] = 'g' .. tag end
  end
  if it.y then list[#list + 1] = 'y' .. it.y end
  return list
end

local function rank_marked(it)
  if it.g then
    for tag in each_tag(it.g) do redis.call('ZADD', K_RANKED .. 'g' .. tag, it.score, it.id) end
  end
  if it.y then redis.call('ZADD', K_RANKED .. 'y' .. it.y, it.score, it.id) end
end

-- Puts an item into its scopes by its score, new or moved.
local function rank(it)
  redis.call('ZADD', K_RANKED .. '*', it.score, it.id)
  redis.call('ZADD', K_RANKED .. 'p' .. (it.pa or ''), it.score, it.id)
  if it.g or it.y then rank_marked(it) end
end

-- The same for two items, with fewer commands.
local function rank_both(it, other)
  redis.call('ZADD', K_RANKED .. '*', it.score, it.id, other.score, other.id)
  if it.pa == other.pa then
    redis.call('ZADD', K_RANKED .. 'p' .. (it.pa or ''), it.score, it.id, other.score, other.id)
  else
    redis.call('ZADD', K_RANKED .. 'p' .. (it.pa or ''), it.score, it.id)
    redis.call('ZADD', K_RANKED .. 'p' .. (other.pa or ''), other.score, other.id)
  end
  if it.g or it.y then rank_marked(it) end
  if other.g or other.y then rank_marked(other) end
end

local function unrank(it)
  for _, scope in ipairs(scopes(it)) do redis.call('ZREM', K_RANKED .. scope, it.id) end
end

local function set_score(it, score)
  it.score, it.class = score, math.floor(score / CLASS)
  it.role = math.floor(it.class / 3)
  put(it, 'w', whole(score))
  if it.class % 3 == READY and it.role ~= TERMINAL then readied[#readied + 1] = it.id end
end

-- Gives the item the score of another class; false when it is in that class already. To be ranked then.
local function reclass(it, class)
  if it.class == class then return false end
  set_score(it, it.score + (class - it.class) * CLASS)
  return true
end

local function move(it, class)
  if reclass(it, class) then rank(it) end
end

local function count_children(id)
  return redis.call('ZCARD', K_RANKED .. 'p' .. id)
end

local function first_child(id)
  return redis.call('ZRANGE', K_RANKED .. 'p' .. id, 0, 0)[1]
end

local function all_children_terminal(id)
  local key = K_RANKED .. 'p' .. id
  if redis.call('ZCOUNT', key, '-inf', '(' .. whole(TERMINAL * 3 * CLASS)) > 0 then return false end
  return redis.call('ZCOUNT', key, whole(BLOCKED * 3 * CLASS), '+inf') == 0
end
