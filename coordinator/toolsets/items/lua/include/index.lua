-- @include beneath
-- Writes and reads the ranked index (include/classes.lua). Functions that index an item use its present score; they
-- store it on the item only if they say so.

local newly_ready = {} -- ids that this run has put into a ready class (include/serve.lua hands them out)
local tag_entries_written = 0 -- entries in scopes of tags that this run has written one by one

local function each_tag(tags)
  return string.gmatch(tags, '[^,%s]+')
end

-- All scopes that an item belongs to.
local function scopes_of(item)
  local list = {'*', 'p' .. (item.pa or '')}
  if item.g then
    for tag in each_tag(item.g) do list[#list + 1] = 'g' .. tag end
  end
  if item.y then list[#list + 1] = 'y' .. item.y end
  return list
end

local function index_tags_and_type(item)
  if item.g then
    for tag in each_tag(item.g) do
      redis.call('ZADD', K_RANKED .. 'g' .. tag, item.score, item.id)
      tag_entries_written = tag_entries_written + 1
    end
  end
  if item.y then redis.call('ZADD', K_RANKED .. 'y' .. item.y, item.score, item.id) end
end

-- Enters a ready item into the index of what is ready below its ancestors (include/beneath.lua).
local function lower_bounds_above(item)
  if item.pa and is_ready_class(item.class) then lower_bounds(item.pa, item.d - 1, item.score) end
end

-- Puts an item into its scopes by its score, new or moved.
local function index_item(item)
  redis.call('ZADD', K_RANKED .. '*', item.score, item.id)
  redis.call('ZADD', K_RANKED .. 'p' .. (item.pa or ''), item.score, item.id)
  if item.g or item.y then index_tags_and_type(item) end
  lower_bounds_above(item)
end

-- The same for two items, with fewer commands.
local function index_two(item, other)
  redis.call('ZADD', K_RANKED .. '*', item.score, item.id, other.score, other.id)
  if item.pa == other.pa then
    redis.call('ZADD', K_RANKED .. 'p' .. (item.pa or ''), item.score, item.id, other.score, other.id)
  else
    redis.call('ZADD', K_RANKED .. 'p' .. (item.pa or ''), item.score, item.id)
    redis.call('ZADD', K_RANKED .. 'p' .. (other.pa or ''), other.score, other.id)
  end
  if item.g or item.y then index_tags_and_type(item) end
  if other.g or other.y then index_tags_and_type(other) end
  lower_bounds_above(item)
  lower_bounds_above(other)
end

-- Puts an item whose scopes may have changed into its present scopes, and removes it from former ones.
local function reindex_item(item, scopes_before, score_before)
  local scopes_left = {}
  for _, scope in ipairs(scopes_before) do scopes_left[scope] = true end
  for _, scope in ipairs(scopes_of(item)) do
    local stays = scopes_left[scope] and item.score == score_before
    if not stays then redis.call('ZADD', K_RANKED .. scope, item.score, item.id) end
    scopes_left[scope] = nil
  end
  for scope in pairs(scopes_left) do redis.call('ZREM', K_RANKED .. scope, item.id) end
  lower_bounds_above(item)
end

-- Sets the class of an item; if it is a ready class, the item will be handed out (include/serve.lua).
local function set_class(item, class)
  item.class, item.role = class, math.floor(class / STATES)
  if is_ready_class(class) then newly_ready[#newly_ready + 1] = item.id end
end

-- Gives an item the class and the matching score, to be stored and indexed by the caller; false if it has that class.
local function change_class(item, class)
  if item.class == class then return false end
  local before, role = item.class, item.role
  item.score = item.score + (class - before) * CLASS_SIZE
  set_class(item, class)
  -- Not where it was held and is, or was never in a role in which there is anything to leave.
  local matters = before % STATES ~= HELD or class % STATES ~= HELD
  if matters and (role == WORK or role == REVIEW or item.role == WORK or item.role == REVIEW) then
    note_abandoned(item)
  end
  return true
end

-- The same with the index; `save_item` is to follow.
local function move_to_class(item, class)
  if change_class(item, class) then
    index_item(item)
    mark_changed(item, 'score')
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
  if redis.call('ZCOUNT', key, '-inf', TERMINAL * STATES * CLASS_SIZE - 1) > 0 then return false end
  return redis.call('ZCOUNT', key, BLOCKED * STATES * CLASS_SIZE, '+inf') == 0
end
