-- @include claims
-- Placing claims and refreshing them. Times are in ms.

-- An item with its score, claim and count of blockers only, for less than `load_item_partly`; nil where there is none.
local function load_item_claim(id)
  if loaded[id] then return loaded[id] end
  local values = redis.call('HMGET', K_ITEM .. id, 'w', 'h', 'nb')
  if not values[1] then return nil end
  local item = {id = id, nb = values[3] or nil}
  unpack_stored(item, values[1], values[2])
  return item
end

-- Refreshes a claim that is live and counted as such.
local function renew_claim(item, ttl_ms, now, events_max)
  item.claimed_at, item.expires = now, now + ttl_ms
  redis.call('ZADD', K_LEASES, item.expires, item.holder)
  local claim = pack_claim(item.fence, item.expires, now, item.first_claimed_at, item.holder)
  redis.call('HSET', K_ITEM .. item.id, 'h', claim)
  return emit(events_max, 'renew', item.id, 'a', item.holder, 'f', whole(item.fence), 'x', whole(item.expires))
end

-- Places `agent`'s claim on an item that nobody holds, and lets go of the one the agent had. The fence rises; as it is
-- never below the time, it also rises above those that a restored or promoted server has no record of. `selector` = what
-- found the item, nil if the agent named it. Returns the claim as replies show it: {'success', id, expires, first claimed
-- at, fence, role, whether it was taken over, abandoned}.
local function acquire_claim(item, agent, ttl_ms, now, events_max, selector)
  local own, ends, earlier = item.holder == agent, now + ttl_ms, nil -- earlier: the item that the agent lets go of
  local taken_over = is_left(item, item.role) and not (own and not selector)
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
    local earlier_id = redis.call('HGET', K_AGENTS, agent)
    redis.call('HSET', K_AGENTS, agent, item.id)
    earlier, item.first_claimed_at = earlier_id and load_item_partly(earlier_id), now
    if earlier and earlier.holder ~= agent then earlier = nil end
  end
  item.fence, item.holder, item.claimed_at, item.expires = math.max((item.fence or 0) + 1, now), agent, now, ends
  redis.call('ZADD', K_LEASES, ends, agent)
  local moved = change_class(item, item.role * STATES + HELD)
  local claim, fence = pack_claim(item.fence, ends, now, item.first_claimed_at, agent), whole(item.fence)
  redis.call('HSET', K_ITEM .. item.id, 'w', item.score, 'h', claim)
  if item.u then
    item.u = nil
    redis.call('HDEL', K_ITEM .. item.id, 'u')
  end
  -- Who names a role knows what it gets, and what a trigger does there.
  if taken_over and not (selector and selector.role) then redis.call('HSET', K_ITEM .. item.id, 'tk', fence) end
  local result = {'success', item.id, ends, item.first_claimed_at, item.fence, item.role, taken_over}
  if not earlier then
    if moved then index_item(item) end
    emit(events_max, 'claim', item.id, 'a', agent, 'f', fence, 'x', whole(ends))
    return result
  end
  local freed = clear_claim(earlier, now)
  if moved and freed then
    index_two(item, earlier)
  elseif moved or freed then
    index_item(moved and item or earlier)
  end
  emit(events_max, 'claim', item.id, 'a', agent, 'f', fence, 'x', whole(ends), 'o', earlier.id, 'p',
    whole(earlier.fence))
  return result
end
