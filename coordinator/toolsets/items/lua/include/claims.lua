-- @include index
-- @include events
-- Claims: one per agent, TTL by server time, and a fence that only rises per item. A claim is live
-- while its expiry lies ahead. A held class means a claim that was live when last looked at; `sweep`
-- moves expired ones back, lazily and in bounded batches, which keeps expiry passive (seed 004): no
-- reaper runs. The record of an expired claim stays on the item ("lapsed") until somebody claims,
-- releases or deletes it; lapsed ones are counted per scope so that claim summaries stay O(1).

local SWEEP_BATCH = 16
local unshielded = {} -- items that this run has freed: what is below them is within reach again

local function live(it, now)
  return it.cb and tonumber(it.cx) > now
end

local function count_lapsed(it, by)
  for _, scope in ipairs({'*', 'p' .. (it.pa or '')}) do
    if redis.call('HINCRBY', K_LAPSED, scope, by) == 0 then redis.call('HDEL', K_LAPSED, scope) end
  end
end

-- Moves up to `budget` expired claims back to where nobody holds them; true when none are left.
local function sweep(now, cap, budget)
  local expired = redis.call('ZRANGEBYSCORE', K_LEASES, '-inf', whole(now), 'LIMIT', 0, budget)
  for _, id in ipairs(expired) do
    local it = load(id)
    redis.call('ZREM', K_LEASES, id)
    move(it, resting(it, it.role))
    save(it)
    count_lapsed(it, 1)
    unshielded[#unshielded + 1] = id
    emit(cap, 'expire', id, 'a', it.cb, 'f', it.f)
  end
  return #expired < budget
end

-- Takes the claim record off the item, live or lapsed.
local function unclaim(it)
  unshielded[#unshielded + 1] = it.id
  if is_held(it) then
    redis.call('ZREM', K_LEASES, it.id)
    move(it, resting(it, it.role))
  else
    count_lapsed(it, -1)
  end
  if redis.call('HGET', K_AGENTS, it.cb) == it.id then redis.call('HDEL', K_AGENTS, it.cb) end
  for _, field in ipairs({'cb', 'cx', 'cc', 'co'}) do put(it, field, nil) end
end

local function release(it, cap)
  emit(cap, 'release', it.id, 'a', it.cb, 'f', it.f)
  unclaim(it)
  save(it)
end

-- Places or refreshes `agent`'s claim on an item that nobody else holds; then, never before, lets go
-- of the one the agent had. The fence rises unless the agent's own claim was still live.
local function acquire(it, agent, ttl_ms, now, cap)
  local renewed = it.cb == agent and live(it, now)
  if it.cb and it.cb ~= agent and redis.call('HGET', K_AGENTS, it.cb) == it.id then
    redis.call('HDEL', K_AGENTS, it.cb)
  end
  if it.cb and not is_held(it) then count_lapsed(it, -1) end
  if it.cb ~= agent then put(it, 'co', whole(now)) end
  if not renewed then put(it, 'f', whole((it.f or 0) + 1)) end
  put(it, 'cb', agent)
  put(it, 'cc', whole(now))
  put(it, 'cx', whole(now + ttl_ms))
  redis.call('ZADD', K_LEASES, it.cx, it.id)
  move(it, held_class(it.role))
  save(it)
  local before = redis.call('HGET', K_AGENTS, agent)
  if before ~= it.id then
    redis.call('HSET', K_AGENTS, agent, it.id)
    local old = before and load(before)
    if old and old.cb == agent then release(old, cap) end
  end
  emit(cap, renewed and 'renew' or 'claim', it.id, 'a', agent, 'f', it.f, 'x', it.cx)
end
