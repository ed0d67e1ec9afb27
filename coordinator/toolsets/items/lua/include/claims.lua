-- @include index
-- @include events
-- @include holds
-- Claims: one per agent, TTL by server time, and a fence that only rises per item. A claim is live while its
-- expiry lies ahead. A held class means a claim that was live when last looked at; `sweep` moves expired ones back,
-- lazily and in bounded batches, which keeps expiry passive (seed 004): no reaper is needed, only processes with
-- parked calls look for expired claims by themselves. The record of an expired claim stays on the item ("lapsed")
-- until somebody claims, releases or deletes it, and is counted per scope.
-- Events: release and expire show a agent, f fence; claim and renew also x expires; a claim that lets go of an
-- earlier one o that item, p that fence, in place of a release.
--   K_AGENTS  agent -> the item whose claim it has, live or lapsed
--   K_LEASES  agents by the expiry of their claims, those of held items only

local SWEEP_BATCH = 16
local SWEEP_WRITES = 1500 -- of one sweep, roughly: items with many tags are put back a few at a time
local unshielded = {} -- items that this run has freed: what is below them is within reach again

local function live(it, now)
  return it.cb and it.cx > now
end

local function count_lapsed(it, by)
  for _, scope in ipairs({'*', 'p' .. (it.pa or '')}) do
    if redis.call('HINCRBY', K_LAPSED, scope, by) == 0 then redis.call('HDEL', K_LAPSED, scope) end
  end
end

local function put_back(now, cap, budget)
  local agents = redis.call('ZRANGEBYSCORE', K_LEASES, '-inf', now, 'LIMIT', 0, budget)
  local ended, left = {}, SWEEP_WRITES
  for n, id in ipairs(redis.call('HMGET', K_AGENTS, unpack(agents))) do
    if left <= 0 then break end
    local it = id and glance(id)
    ended[n], left = agents[n], left - 4 - (it and #scopes(it) or 0)
    if it and is_held(it) then
      move(it, resting(it, it.role))
      save(it)
      if it.k then bring_back(it) end
      count_lapsed(it, 1)
      count_hold(it, it.cx, true)
      unshielded[#unshielded + 1] = id
      emit(cap, 'expire', id, 'a', it.cb, 'f', it.f)
    end
  end
  redis.call('ZREM', K_LEASES, unpack(ended))
  return redis.call('ZCOUNT', K_LEASES, '-inf', now) == 0
end

-- Moves up to `budget` expired claims back to where nobody holds them; true when none are left.
local function sweep(now, cap, budget)
  return redis.call('ZCOUNT', K_LEASES, '-inf', now) == 0 or put_back(now, cap, budget)
end

-- Takes the claim's record off the item; whether it has to be ranked anew.
local function let_go(it, now)
  local held = is_held(it)
  if held then count_hold(it, math.min(it.cx, now), it.cx <= now) end
  unshielded[#unshielded + 1] = it.id
  it.cb, it.cx, it.cc, it.co = nil, nil, nil, nil
  if held then reclass(it, resting(it, it.role)) else count_lapsed(it, -1) end
  redis.call('HSET', K_ITEM .. it.id, 'w', it.w, 'h', struct.pack('>I4', it.f))
  if it.k then bring_back(it) end
  return held
end

-- Ends the claim of an item, live or lapsed.
local function unclaim(it, now)
  redis.call('HDEL', K_AGENTS, it.cb)
  if is_held(it) then redis.call('ZREM', K_LEASES, it.cb) end
  if let_go(it, now) then rank(it) end
end

local function release(it, cap, now)
  emit(cap, 'release', it.id, 'a', it.cb, 'f', it.f)
  unclaim(it, now)
end
