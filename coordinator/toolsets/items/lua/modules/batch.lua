-- Writing for many items at once: a command for each key instead of one for each item and key.
local batch = {}

local ARGUMENTS_MAX = 2000 -- arguments of one command: Lua's stack takes some thousands

-- A command on a key with a list of arguments, or with a list of keys (no key); in parts where the list is long.
-- Parts are of even length, so pairs stay together.
function batch.call(command, key, list)
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
function batch.list_in(lists, key)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  return list
end

return batch
