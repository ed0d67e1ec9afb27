-- @include filters
-- @include claims
-- @include idempotency
-- Parked claims. Whatever makes items ready hands each, in the same script, to the waiter that has been
-- parked longest among those it suits: the claim is placed for the waiter's agent, the reply is kept under
-- the waiter's request and published to the process that holds the call. So one item wakes one agent,
-- nothing polls, and a process that died costs nothing: the agent's retry finds the reply.
--
-- A waiter has the name of its request record; those with one selector queue in order of arrival:
--   K_WAITING  queue -> selector (packed)        K_QUEUE queue    names by order of arrival
--   K_WAITER   p process  a agent  t ttl ms  u until  f fingerprint  k keep ms  r packed releases  q queue
--   K_ALIVE    process: it lives and can take a call

local WAKE_CHANNEL = 'fc:wake:'
local FRONT = 16 -- how many of a queue are considered for one item

local function remove_waiter(name, queue)
  redis.call('ZREM', K_QUEUE .. queue, name)
  redis.call('DEL', K_WAITER .. name)
  if redis.call('EXISTS', K_QUEUE .. queue) == 0 then redis.call('HDEL', K_WAITING, queue) end
end

-- The first of a queue that can take the item: name, order of arrival, fields. Those whose time is over
-- or whose process died are dropped on the way.
local function front_waiter(queue, it, now)
  local front = redis.call('ZRANGE', K_QUEUE .. queue, 0, FRONT - 1, 'WITHSCORES')
  for n = 1, #front, 2 do
    local f = redis.call('HMGET', K_WAITER .. front[n], 'p', 'a', 't', 'u', 'f', 'k', 'r')
    if not f[1] or tonumber(f[4]) <= now or redis.call('EXISTS', K_ALIVE .. f[1]) == 0 then
      remove_waiter(front[n], queue)
    elseif not shielded(it, f[2], now) then
      return {name = front[n], order = tonumber(front[n + 1]), queue = queue, fields = f}
    end
  end
end

local function hand_over(it, waiter, now, cap)
  local process, agent, ttl, _, fingerprint, keep_ms, releases = unpack(waiter.fields)
  remove_waiter(waiter.name, waiter.queue)
  acquire(it, agent, tonumber(ttl), now, cap)
  local result = {'success', it.id, tonumber(it.cx), tonumber(it.co), tonumber(it.f)}
  local reply = cmsgpack.pack({now, {result}, cmsgpack.unpack(releases)})
  remember(waiter.name, fingerprint, 'D', reply, keep_ms)
  redis.call('PUBLISH', WAKE_CHANNEL .. process, waiter.name .. reply)
end

-- Items below one that nobody holds any more were out of reach and may be wanted now.
local function look_below(id, depth)
  for class in string.gmatch('qwrb', '.') do
    for _, child in ipairs(redis.call('ZRANGE', index_key('p' .. id, class), 0, FRONT - 1)) do
      readied[#readied + 1] = child
      if depth < MAX_DEPTH then look_below(child, depth + 1) end
    end
  end
end

-- Hands out what this run of the script has made ready. Every script that may do so ends with it.
local function serve(now, cap)
  if #readied + #unshielded == 0 or redis.call('HLEN', K_WAITING) == 0 then return end
  local queues, flat = {}, redis.call('HGETALL', K_WAITING)
  for n = 1, #flat, 2 do queues[flat[n]] = cmsgpack.unpack(flat[n + 1]) end
  local n, m = 1, 1
  while n <= #readied or m <= #unshielded do
    if m <= #unshielded then
      look_below(unshielded[m], 1)
      m = m + 1
    else
      local it, best = load(readied[n]), nil
      for queue, selector in pairs(it and it.k == ready_class(it.role) and queues or {}) do
        local waiter = matches(it, selector) and front_waiter(queue, it, now)
        if waiter and (not best or waiter.order < best.order) then best = waiter end
      end
      if best then hand_over(it, best, now, cap) end
      n = n + 1
    end
  end
end
