-- @include index
-- @include history

local TRANSITIONS_SHOWN = 10

-- Everything of an item that a full response shows, in the order of the reply struct (View in store/query.py).
local function full_view(item)
  local long, created = {}, created_of(item.score)
  local flat = redis.call('HGETALL', K_TEXT .. item.id)
  for n = 1, #flat, 2 do long[flat[n]] = flat[n + 1] end
  return {
    item.id, item.pa or false, item.t or long.t, long.x or false, item.s or long.s or '', item.role, item.lb or false,
    tonumber(item.pr) or false, priority_of(item.score), complexity_of(item.score), tonumber(item.d), long.m or false,
    item.g or false, item.y or false, long.o or false, item.q or false, created, tonumber(item.ma) or created,
    tonumber(item.ra) or created, item.rv ~= nil,
    last_transitions(item, TRANSITIONS_SHOWN),
  }
end
