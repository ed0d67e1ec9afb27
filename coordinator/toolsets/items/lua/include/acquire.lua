-- @include claims
-- Placing claims and refreshing them. Times are in ms.

-- Who has claimed an item, and its score: for less than `load_item_partly`, and without the rest of it.
local function load_item_claim(id)
  if loaded[id] then return loaded[id] end
  local values = redis.call('HMGET', K_ITEM .. id, 'w', 'h')
  if not values[1] then return nil end
  local item = {id = id}
  unpack_stored(item, values[1], values[2])
  return item
end

-- Refreshes a claim that is live and counted as such.
local function renew_claim(item, ttl_ms, now, events_max)
  item.claimed_at, item.expires = now, now + ttl_ms
  redis.call('ZADD', K_LEASES, item.expires, item.holder)
  redis.call('HSET', K_ITEM .. item.id, 'h', struct.pack(CLAIM_FORMAT, item.fence, item.expires, now, item.first_claimed_at) .. item.holder)
  return emit(events_max, 'renew', item.id, 'a', item.holder, 'f', item.fence, 'x', whole(item.expires))
end

-- Places `agent`'s claim on an item that nobody holds, and lets go of the one the agent had. The fence rises.
local function acquire_claim(item, agent, ttl_ms, now, events_max)
  local own, ends, old = item.holder == agent, now + ttl_ms, nil
  if item.holder and not is_held(item) then count_lapsed(item, -1) end
  if not own then
    if item.holder then
      if is_held(item) then -- expired, but not put back before: what is below it is within reach of another agent now
        record_hold(item, item.expires, true)
        freed_ids[#freed_ids + 1] = item.id
      end
      redis.call('HDEL', K_AGENTS, item.holder)
      redis.call('ZREM', K_LEASES, item.holder)
    end
    local before = redis.call('HGET', K_AGENTS, agent)
    redis.call('HSET', K_AGENTS, agent, item.id)
    old, item.first_claimed_at = before and load_item_partly(before), now
    if old and old.holder ~= agent then old = nil end
  end
  item.fence, item.holder, item.claimed_at, item.expires = (item.fence or 0) + 1, agent, now, ends
  redis.call('ZADD', K_LEASES, ends, agent)
  local moved = change_class(item, item.role * 3 + HELD)
  redis.call('HSET', K_ITEM .. item.id, 'w', item.score, 'h', struct.pack(CLAIM_FORMAT, item.fence, ends, now, item.first_claimed_at) .. agent)
  if not old then
    if moved then index_item(item) end
    return emit(events_max, 'claim', item.id, 'a', agent, 'f', item.fence, 'x', whole(ends))
  end
  local freed = clear_claim(old, now)
  if moved and freed then
    index_two(item, old)
  elseif moved or freed then
    index_item(moved and item or old)
  end
  emit(events_max, 'claim', item.id, 'a', agent, 'f', item.fence, 'x', whole(ends), 'o', old.id, 'p', old.fence)
end
