-- Batched writes for many items: one command per key instead of one per item and key.
-- owns: none
local batch = {}

local ARGUMENTS_MAX = 2000 -- arguments of one command: Lua's stack holds some thousands

-- A command on a key with a list of arguments, in parts if the list is long. Parts have even lengths, so pairs stay
-- together.
function batch.call(command, key, list)
  for from = 1, #list, ARGUMENTS_MAX do
    redis.call(command, key, unpack(list, from, math.min(from + ARGUMENTS_MAX - 1, #list)))
  end
end

-- The same on a list of keys, for MSET with their values.
function batch.call_keys(command, list)
  for from = 1, #list, ARGUMENTS_MAX do
    redis.call(command, unpack(list, from, math.min(from + ARGUMENTS_MAX - 1, #list)))
  end
end

-- The list under a key in a table of lists; created empty if missing.
function batch.list_in(lists, key)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  return list
end

return batch
