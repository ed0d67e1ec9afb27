-- @include index
-- Everything of an item that a full response shows, in the order of the reply struct.
local function full_view(it)
  local long, created = {}, created_of(it.w)
  local flat = redis.call('HGETALL', K_TEXT .. it.id)
  for n = 1, #flat, 2 do long[flat[n]] = flat[n + 1] end
  return {
    it.id, it.pa or false, it.t or long.t, long.x or false, it.s or long.s or '', it.role, it.lb or false,
    tonumber(it.pr) or false, priority_of(it.w), complexity_of(it.w), tonumber(it.d), long.m or false,
    it.g or false, it.y or false, long.o or false, it.q or false, created, tonumber(it.ma) or created,
    tonumber(it.ra) or created, it.rv ~= nil,
  }
end
