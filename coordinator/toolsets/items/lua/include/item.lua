-- @include keys
-- @include clock
-- A work item in Redis: one small hash (listpack form: short field names, nothing stored that is a
-- default) and one entry in a rank index per scope.
--   t title  s summary  k class  pr previous role  lb status label  p priority 0 high..2 low
--   c complexity  d depth  pa parent  g tags  y type  ca created  ma modified  ra role changed
--   rv requires verification  nb unsatisfied blockers  lv graph level  f fence
--   cb claimed by  cx claim expires  cc claimed at  co first claimed at  (all times in ms)
-- Texts over 64 bytes live in a second hash under the same letters, and so do always
--   x description  m metadata  o properties
--
-- The class is the item's role and readiness in one letter. Scopes are everything ('*'), the parent's
-- children ('p' .. parent, roots under 'p'), each tag ('g' .. tag) and the type ('y' .. type).
-- An item is in exactly one class of each of its scopes, so ZCARD counts roles and the head of a
-- ready class is the next item.

-- Class letters by role code (0 queue, 1 work, 2 review, 3 terminal, 4 blocked):
--   q w r t b  ready (t: nobody holds it)   Q W R T B  held by a claim   1 2 3 - 4  waiting for a dependency
local CLASSES = 'qwrtbQWRTB123-4'

local QUEUE, WORK, REVIEW, TERMINAL, BLOCKED = 0, 1, 2, 3, 4
local MAX_DEPTH = 3
local INLINE_BYTES = 64
local RANK_EPOCH = 1577836800000 -- 2020-01-01: leaves 41 bits of milliseconds, 69 years
local NO_COMPLEXITY = 255 -- sorts after every real one

local function ready_class(role)
  return string.sub(CLASSES, role + 1, role + 1)
end

local function held_class(role)
  return string.sub(CLASSES, role + 6, role + 6)
end

local function role_of(class)
  return (string.find(CLASSES, class, 1, true) - 1) % 5
end

local function is_held(it)
  return it.k >= 'A' and it.k <= 'Z'
end

local function role_name(role)
  return ({[0] = 'queue', 'work', 'review', 'terminal', 'blocked'})[role]
end

local loaded = {}
local readied = {} -- ids that this run has put into a ready class (include/waiters.lua hands them out)

-- The item, or nil. One table per item and script run, so that a cascade and a later element of the
-- same batch see each other's changes.
local function load(id)
  local it = loaded[id]
  if it then return it end
  local flat = redis.call('HGETALL', K_ITEM .. id)
  if #flat == 0 then return nil end
  it = {id = id, changed = {}}
  for n = 1, #flat, 2 do it[flat[n]] = flat[n + 1] end
  it.role = role_of(it.k)
  loaded[id] = it
  return it
end

-- Why an id has no item: the caller marks prefixes that it could not resolve with '?' .. reason, so that
-- every element of a batch reaches the script and a replayed answer is the first one to the letter.
local function absent(id)
  return string.sub(id, 1, 1) == '?' and string.sub(id, 2) or 'not_found'
end

-- Sets a stored field (false or nil removes it); `save` writes all of them at once.
local function put(it, field, value)
  it[field] = value or nil
  it.changed[field] = true
end

local function save(it)
  local set, gone = {}, {}
  for field in pairs(it.changed) do
    if it[field] ~= nil then
      set[#set + 1] = field
      set[#set + 1] = it[field]
    else
      gone[#gone + 1] = field
    end
  end
  it.changed = {}
  if #set > 0 then redis.call('HSET', K_ITEM .. it.id, unpack(set)) end
  if #gone > 0 then redis.call('HDEL', K_ITEM .. it.id, unpack(gone)) end
end

-- A text wherever its length puts it; '' and false remove it.
local function put_text(it, field, value)
  local long = value and #value > INLINE_BYTES
  put(it, field, value and value ~= '' and not long and value)
  if long then
    redis.call('HSET', K_TEXT .. it.id, field, value)
  elseif not it.fresh then
    redis.call('HDEL', K_TEXT .. it.id, field)
  end
end

local function text(it, field)
  return it[field] or redis.call('HGET', K_TEXT .. it.id, field)
end

local function title(it)
  return text(it, 't')
end

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

-- modifiedAt rises strictly, by a millisecond where the clock did not.
local function touch(it, now)
  put(it, 'ma', whole(math.max(now, (it.ma or it.ca) + 1)))
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
