-- @include claims
-- Placing claims and refreshing them. Times are in ms.

-- Who has claimed an item, and its score: for less than `glance`, and without the rest of it.
local function claim_of(id)
  if loaded[id] then return loaded[id] end
  local f = redis.call('HMGET', K_ITEM .. id, 'w', 'h')
  if not f[1] then return nil end
  local it = {id = id}
  set_stored(it, f[1], f[2])
  return it
end

-- Refreshes a claim that is live and counted as such.
local function renew(it, ttl_ms, now, cap)
  it.cc, it.cx = now, now + ttl_ms
  redis.call('ZADD', K_LEASES, it.cx, it.cb)
  redis.call('HSET', K_ITEM .. it.id, 'h', struct.pack(CLAIM, it.f, it.cx, now, it.co) .. it.cb)
  return emit(cap, 'renew', it.id, 'a', it.cb, 'f', it.f, 'x', whole(it.cx))
end

-- Places `agent`'s claim on an item that nobody holds, and lets go of the one the agent had. The fence rises.
local function acquire(it, agent, ttl_ms, now, cap)
  local own, ends, old = it.cb == agent, now + ttl_ms, nil
  if it.cb and not is_held(it) then count_lapsed(it, -1) end
  if not own then
    if it.cb then
      if is_held(it) then -- expired, but not put back before: what is below it is within reach of another agent now
        count_hold(it, it.cx, true)
        unshielded[#unshielded + 1] = it.id
      end
      redis.call('HDEL', K_AGENTS, it.cb)
      redis.call('ZREM', K_LEASES, it.cb)
    end
    local before = redis.call('HGET', K_AGENTS, agent)
    redis.call('HSET', K_AGENTS, agent, it.id)
    old, it.co = before and glance(before), now
    if old and old.cb ~= agent then old = nil end
  end
  it.f, it.cb, it.cc, it.cx = (it.f or 0) + 1, agent, now, ends
  redis.call('ZADD', K_LEASES, ends, agent)
  local moved = reclass(it, it.role * 3 + HELD)
  redis.call('HSET', K_ITEM .. it.id, 'w', it.w, 'h', struct.pack(CLAIM, it.f, ends, now, it.co) .. agent)
  if not old then
    if moved then rank(it) end
    return emit(cap, 'claim', it.id, 'a', agent, 'f', it.f, 'x', whole(ends))
  end
  local freed = let_go(old, now)
  if moved and freed then
    rank_both(it, old)
  elseif moved or freed then
    rank(moved and it or old)
  end
  emit(cap, 'claim', it.id, 'a', agent, 'f', it.f, 'x', whole(ends), 'o', old.id, 'p', old.f)
end
