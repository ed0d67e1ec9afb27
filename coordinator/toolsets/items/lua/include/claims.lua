-- @include index
-- @include events
-- @include holds
-- Claims: one per agent, TTL by server time, and a fence that only rises per item. A claim is live while its
-- expiry lies ahead. A held class means a claim that was live when last looked at; `sweep_claims` takes items whose
-- claims have expired out of it, lazily and in bounded batches, which keeps expiry passive (seed 004): no reaper is
-- needed, only processes with parked calls look for expired claims by themselves. The record of an expired claim stays
-- on the item ("lapsed") until somebody claims, releases or deletes it, and is counted for all and per parent.
-- Events: release and expire show a agent, f fence; claim and renew also x expires; a claim that lets go of an
-- earlier one o that item, p that fence, in place of a release.
--   K_AGENTS  agent -> the item whose claim it has, live or lapsed
--   K_LEASES  agents by the expiry of their claims, those of held items only
--   K_LAPSED  scope ('*' or 'p' .. parent) -> lapsed claims in it

local SWEEP_BATCH = 16
local SWEEP_WRITES = 1500 -- of one sweep, roughly: items with many tags are put back a few at a time
local freed_ids = {} -- items that this run has freed: what is below them may be claimed again (include/serve.lua)

local function is_live(item, now)
  return item.holder and item.expires > now
end

-- Changes the counts of lapsed claims by one of this item.
local function count_lapsed(item, by)
  for _, scope in ipairs({'*', 'p' .. (item.pa or '')}) do
    if redis.call('HINCRBY', K_LAPSED, scope, by) == 0 then redis.call('HDEL', K_LAPSED, scope) end
  end
end

-- `sweep_claims` where there is something to do.
local function sweep_batch(now, events_max, budget)
  local agents = redis.call('ZRANGEBYSCORE', K_LEASES, '-inf', now, 'LIMIT', 0, budget)
  local ended, left = {}, SWEEP_WRITES
  for n, id in ipairs(redis.call('HMGET', K_AGENTS, unpack(agents))) do
    if left <= 0 then break end
    local item = id and load_item_partly(id)
    ended[n], left = agents[n], left - 4 - (item and #scopes_of(item) or 0)
    if item and is_held(item) then
      move_to_class(item, unclaimed_class(item, item.role))
      save_item(item)
      if item.k then restore_bounds(item) end
      count_lapsed(item, 1)
      record_hold(item, item.expires, true)
      freed_ids[#freed_ids + 1] = id
      emit(events_max, 'expire', id, 'a', item.holder, 'f', whole(item.fence))
    end
  end
  redis.call('ZREM', K_LEASES, unpack(ended))
  return redis.call('ZCOUNT', K_LEASES, '-inf', now) == 0
end

-- Moves the items of up to `budget` expired claims into classes that are not held; true if no more are left.
local function sweep_claims(now, events_max, budget)
  return redis.call('ZCOUNT', K_LEASES, '-inf', now) == 0 or sweep_batch(now, events_max, budget)
end

-- Removes the claim's record from the item and stores it; returns whether the caller has to index the item anew.
local function clear_claim(item, now)
  local held, moved = is_held(item), nil
  if held then record_hold(item, math.min(item.expires, now), item.expires <= now) end
  freed_ids[#freed_ids + 1] = item.id
  item.holder, item.expires, item.claimed_at, item.first_claimed_at = nil, nil, nil, nil
  if not held then count_lapsed(item, -1) end
  moved = change_class(item, unclaimed_class(item, item.role))
  if not moved and item.role == REVIEW then note_abandoned(item) end -- its claim that lapsed is gone
  redis.call('HSET', K_ITEM .. item.id, 'w', item.score, 'h', pack_fence(item.fence))
  if item.k then restore_bounds(item) end
  return moved
end

-- Ends the claim of an item, live or lapsed, without an event.
local function end_claim(item, now)
  redis.call('HDEL', K_AGENTS, item.holder)
  if is_held(item) then redis.call('ZREM', K_LEASES, item.holder) end
  if clear_claim(item, now) then index_item(item) end
end

local function release_claim(item, events_max, now)
  emit(events_max, 'release', item.id, 'a', item.holder, 'f', whole(item.fence))
  end_claim(item, now)
end
