-- @include beneath
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

local marks_written = 0 -- places by tag that this run has written one by one

local function rank_marked(it)
  if it.g then
    for tag in each_tag(it.g) do
      redis.call('ZADD', K_RANKED .. 'g' .. tag, it.w, it.id)
      marks_written = marks_written + 1
    end
  end
  if it.y then redis.call('ZADD', K_RANKED .. 'y' .. it.y, it.w, it.id) end
end

local function surface(it)
  if it.pa and it.class % 3 == READY and it.role ~= TERMINAL then announce(it.pa, it.d - 1, it.w) end
end

-- Puts an item into its scopes by its score, new or moved.
local function rank(it)
  redis.call('ZADD', K_RANKED .. '*', it.w, it.id)
  redis.call('ZADD', K_RANKED .. 'p' .. (it.pa or ''), it.w, it.id)
  if it.g or it.y then rank_marked(it) end
  surface(it)
end

-- The same for two items, with fewer commands.
local function rank_both(it, other)
  redis.call('ZADD', K_RANKED .. '*', it.w, it.id, other.w, other.id)
  if it.pa == other.pa then
    redis.call('ZADD', K_RANKED .. 'p' .. (it.pa or ''), it.w, it.id, other.w, other.id)
  else
    redis.call('ZADD', K_RANKED .. 'p' .. (it.pa or ''), it.w, it.id)
    redis.call('ZADD', K_RANKED .. 'p' .. (other.pa or ''), other.w, other.id)
  end
  if it.g or it.y then rank_marked(it) end
  if other.g or other.y then rank_marked(other) end
  surface(it)
  surface(other)
end

-- Puts an item that has changed where it belongs, and takes it from where it was.
local function rank_again(it, scopes_before, score_before)
  local left = {}
  for _, scope in ipairs(scopes_before) do left[scope] = true end
  for _, scope in ipairs(scopes(it)) do
    if not left[scope] or it.w ~= score_before then redis.call('ZADD', K_RANKED .. scope, it.w, it.id) end
    left[scope] = nil
  end
  for scope in pairs(left) do redis.call('ZREM', K_RANKED .. scope, it.id) end
  surface(it)
end

local function enter(it, class)
  it.class, it.role = class, math.floor(class / 3)
  if class % 3 == READY and class ~= TERMINAL * 3 then readied[#readied + 1] = it.id end
end

-- Gives the item the score of another class, which is to be stored and ranked then; false when it is there.
local function reclass(it, class)
  if it.class == class then return false end
  it.w = it.w + (class - it.class) * CLASS
  enter(it, class)
  return true
end

local function move(it, class)
  if reclass(it, class) then
    rank(it)
    mark(it, 'w')
  end
end

local function count_children(id)
  return redis.call('ZCARD', K_RANKED .. 'p' .. id)
end

local function first_child(id)
  return redis.call('ZRANGE', K_RANKED .. 'p' .. id, 0, 0)[1]
end

local function all_children_terminal(id)
  local key = K_RANKED .. 'p' .. id
  if redis.call('ZCOUNT', key, '-inf', TERMINAL * 3 * CLASS - 1) > 0 then return false end
  return redis.call('ZCOUNT', key, BLOCKED * 3 * CLASS, '+inf') == 0
end
