-- Batched writes for many items: one command per key instead of one per item and key.
local batch = {}

local ARGUMENTS_MAX = 2000 -- arguments of one command: Lua's stack holds some thousands

-- A command on a key with a list of arguments, or with a list of keys (no key); in parts if the list is long.
-- Parts have even lengths, so pairs stay together.
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
