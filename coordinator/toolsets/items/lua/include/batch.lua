-- @include index
-- Writing for many items at once: a command for each key instead of one for each item and key. Items are indexed by
-- `index_item` (include/index.lua), or here where they are several.

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

-- The list under a key in a table of lists; an empty one is put there where there is none.
local function get_or_add_list(lists, key)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  return list
end

-- Puts items into their scopes by their scores; with `without_tags` not into those of their tags and types.
local function index_many(items, without_tags)
  local entries, sizes = {}, {} -- by scope: scores and ids in turn, and how many values these are
  local function add_entry(scope, score, id)
    local list, size = entries[scope], sizes[scope] or 0
    if not list then
      list = {}
      entries[scope] = list
    end
    list[size + 1], list[size + 2], sizes[scope] = score, id, size + 2
  end
  for _, item in ipairs(items) do
    local score, id = whole(item.score), item.id
    add_entry('*', score, id)
    add_entry('p' .. (item.pa or ''), score, id)
    if item.g and not without_tags then
      for tag in each_tag(item.g) do add_entry('g' .. tag, score, id) end
    end
    if item.y and not without_tags then add_entry('y' .. item.y, score, id) end
    lower_bounds_above(item)
  end
  for scope, list in pairs(entries) do call_in_parts('ZADD', K_RANKED .. scope, list) end
end

-- The same with all scopes, for any number of items.
local function index_items(items)
  if items[2] then index_many(items) elseif items[1] then index_item(items[1]) end
end
