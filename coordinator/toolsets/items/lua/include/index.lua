-- @include item
-- The ranked index: where an item stands in each of its scopes, and who is in a scope's classes.

local readied = {} -- ids that this run has put into a ready class (include/waiters.lua hands them out)

-- Priority, complexity, age packed into one double (53 bits, exact): smallest first, ids break ties.
local function rank(it)
  return whole(it.p * 2 ^ 49 + (it.c or NO_COMPLEXITY) * 2 ^ 41 + (it.ca - RANK_EPOCH))
end

local function scopes(it)
  local list = {'*', 'p' .. (it.pa or '')}
  if it.g then
    for tag in string.gmatch(it.g, '[^,%s]+') do list[#list + 1] = 'g' .. tag end
  end
  if it.y then list[#list + 1] = 'y' .. it.y end
  return list
end

local function index_key(scope, class)
  return K_RANKED .. scope .. ':' .. class
end

local function note_ready(it)
  if it.role ~= TERMINAL and it.k == ready_class(it.role) then readied[#readied + 1] = it.id end
end

local function index_add(it)
  local score = rank(it)
  note_ready(it)
  for _, scope in ipairs(scopes(it)) do redis.call('ZADD', index_key(scope, it.k), score, it.id) end
end

local function index_remove(it)
  for _, scope in ipairs(scopes(it)) do redis.call('ZREM', index_key(scope, it.k), it.id) end
end

local function move(it, class)
  if it.k == class then return end
  local score = rank(it)
  for _, scope in ipairs(scopes(it)) do
    redis.call('ZREM', index_key(scope, it.k), it.id)
    redis.call('ZADD', index_key(scope, class), score, it.id)
  end
  put(it, 'k', class)
  it.role = role_of(class)
  note_ready(it)
end

-- The class of an item of `role` that nobody holds.
local function resting(it, role)
  if role ~= TERMINAL and tonumber(it.nb or 0) > 0 then return string.sub(CLASSES, role + 11, role + 11) end
  return ready_class(role)
end

-- Calls visit(key) for each class of a scope, open ones first.
local function each_class(scope, visit)
  for class in string.gmatch('qwrbQWRB1234tT', '.') do visit(index_key(scope, class)) end
end

local function children(id)
  local list = {}
  each_class('p' .. id, function(key)
    for _, child in ipairs(redis.call('ZRANGE', key, 0, -1)) do list[#list + 1] = child end
  end)
  return list
end

local function count_children(id)
  local n = 0
  each_class('p' .. id, function(key) n = n + redis.call('ZCARD', key) end)
  return n
end

local function first_child(id)
  local found
  each_class('p' .. id, function(key) found = found or redis.call('ZRANGE', key, 0, 0)[1] end)
  return found
end

local function all_children_terminal(id)
  local keys = {}
  for class in string.gmatch('qwrbQWRB1234', '.') do keys[#keys + 1] = index_key('p' .. id, class) end
  return redis.call('EXISTS', unpack(keys)) == 0
end
