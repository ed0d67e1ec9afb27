-- @include index
-- Writing for many items at once: a command for each key instead of one for each item and key.

local ARGUMENTS_MAX = 2000 -- arguments of one command: the stack of a script takes some thousands

-- A command on a key with a list of arguments, or with a list of keys (no key); in parts where the list is long.
-- Parts are of even length, so pairs stay together.
local function call_in_parts(command, key, list)
  for from = 1, #list, ARGUMENTS_MAX do
    local last = math.min(from + ARGUMENTS_MAX - 1, #list)
    if key then
      redis.call(command, key, unpack(list, from, last))
    else
      redis.call(command, unpack(list, from, last))
    end
  end
end

-- The list of a key in a table of lists.
local function get_or_add_list(lists, key)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  return list
end

-- `unmarked`: but for their tags and types.
local function index_many(items, unmarked)
  local entries, sizes = {}, {}
  local function put_at(scope, score, id)
    local list, size = entries[scope], sizes[scope] or 0
    if not list then
      list = {}
      entries[scope] = list
    end
    list[size + 1], list[size + 2], sizes[scope] = score, id, size + 2
  end
  for _, item in ipairs(items) do
    local score, id = whole(item.score), item.id
    put_at('*', score, id)
    put_at('p' .. (item.pa or ''), score, id)
    if item.g and not unmarked then
      for tag in each_tag(item.g) do put_at('g' .. tag, score, id) end
    end
    if item.y and not unmarked then put_at('y' .. item.y, score, id) end
    lower_bounds_above(item)
  end
  for scope, list in pairs(entries) do call_in_parts('ZADD', K_RANKED .. scope, list) end
end

-- Puts items into their scopes by their scores, as `index_item` does one.
local function index_items(items)
  if items[2] then index_many(items) elseif items[1] then index_item(items[1]) end
end
