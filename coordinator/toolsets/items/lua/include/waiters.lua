-- @include filters
-- @include acquire
-- @include idempotency
-- @include holders
-- Parked claims. The script that makes an item ready hands it to the waiter that has been parked longest among those it
-- suits: it places the claim for the waiter's agent, records the reply under the waiter's request, and publishes it to
-- the process that holds the call. So one item wakes one agent, nothing polls, and the death of a process does no harm:
-- the agent's retry finds the reply.
--
-- A waiter has the name of its request record; those with one selector queue in order of arrival:
--   K_QUEUE    queue: names by order of arrival
--   K_WAITER   p processes that hold the call (it may be repeated on several), one after the other  a agent  t ttl ms
--              u until (ms)  f fingerprint  k keep ms  r packed releases  q queue  w packed places
--   K_WAITING  queues by when the last call of each ends
--   K_WANTED   place: queue -> when its last call ends (ms, 13 digits) .. selector (packed)
--   K_ALIVE    process: it lives and can take a call
-- A place is a scope and a class as in include/classes.lua, or what is below an item at any depth ('a' .. id) and a
-- class: an item leads to the selectors that may suit it and to no others, however many there are. All these keys expire
-- some time after their calls, so those of dead processes do not stay.

local WAKE_CHANNEL = 'fc:wake:'
local GRACE = 10000 -- ms that a waiter outlives its call

-- Publishes to the processes of a call, with the call's project and the waiter's name: its reply, or '' for it to ask
-- again.
local function publish_wake(processes, name, reply)
  for process in each_process(processes) do
    redis.call('PUBLISH', WAKE_CHANNEL .. process, string.sub(P, 5, -3) .. ' ' .. name .. reply)
  end
end

-- The place that every item that suits a selector leads to.
local function places_of(selector)
  local selector_scopes = {'*'}
  if selector.parent then
    selector_scopes = {'p' .. selector.parent}
  elseif selector.ancestor then
    selector_scopes = {'a' .. selector.ancestor}
  elseif selector.type then
    selector_scopes = {'y' .. selector.type}
  elseif selector.tags then
    for n, tag in ipairs(selector.tags) do selector_scopes[n] = 'g' .. tag end
  end
  local places = {}
  -- What is abandoned leads to both kinds: without a role, and with its role.
  for n, scope in ipairs(selector_scopes) do places[n] = scope .. ':' .. (selector.role or QUEUE) * STATES end
  return places
end

-- Makes a key live until `ends` at least.
local function extend_expiry(key, ends, now)
  if redis.call('PTTL', key) < ends - now then redis.call('PEXPIREAT', key, whole(ends)) end
end

-- Makes the first waiter of a queue ask again, because there may be an item for it that has not been looked at. If that
-- item is below freed items (`around` as for `next_holder`, else nil), it may be within reach of one agent only; so the
-- waiters of agents that hold an item around there ask again too.
local function wake_queue(queue, now, around)
  local waiter = front_waiter(queue, nil, now)
  while waiter do
    publish_wake(waiter.processes, waiter.name, '')
    waiter = around and next_holder(queue, waiter.at + 1, around, now)
  end
  flush_queues()
end

-- The fields of K_WAITER of a call (releases and places packed), or nil if it is not parked.
local function load_waiter(name)
  local processes, queue, releases, fingerprint, places, ends =
    unpack(redis.call('HMGET', K_WAITER .. name, 'p', 'q', 'r', 'f', 'w', 'u'))
  if not processes then return nil end
  return {processes = processes, queue = queue, releases = releases, fingerprint = fingerprint, places = places,
    ends = tonumber(ends)}
end

-- Parks a call, or keeps it parked, at the end of its queue where it is new there, which is returned. `waiter` = what
-- it is parked as, or nil; `fields` = what K_WAITER is to have besides processes, until, queue and places; `wait` in ms.
local function park_call(name, queue, packed_selector, now, wait, process, waiter, fields)
  local until_ms = math.max(now + wait, waiter and waiter.ends or 0) -- of whoever waits longest for the answer
  local ends, places = until_ms + GRACE, places_of(cmsgpack.unpack(packed_selector))
  local new = not waiter or waiter.queue ~= queue
  if new and waiter then remove_waiters({name}, waiter.queue, waiter.places) end
  if new then redis.call('ZADD', K_QUEUE .. queue, redis.call('INCR', K_ARRIVALS), name) end
  redis.call('ZREMRANGEBYSCORE', K_WAITING, '-inf', now)
  if (tonumber(redis.call('ZSCORE', K_WAITING, queue)) or 0) < ends then
    redis.call('ZADD', K_WAITING, ends, queue)
    redis.call('PEXPIREAT', K_QUEUE .. queue, whole(ends))
    extend_expiry(K_WAITING, ends, now)
    for _, place in ipairs(places) do
      redis.call('HSET', K_WANTED .. place, queue, whole(ends) .. packed_selector)
      extend_expiry(K_WANTED .. place, ends, now)
    end
  end
  local key = K_WAITER .. name
  local processes = (waiter and other_processes(waiter.processes, process) or '') .. process
  redis.call('HSET', key, 'p', processes, 'u', whole(until_ms), 'q', queue, 'w', cmsgpack.pack(places),
    unpack(fields))
  redis.call('PEXPIREAT', key, whole(ends))
  return new
end

-- Ends a parked call with the reply that is recorded for its request now; `found` = whether that has an item,
-- `processes` = those that are told.
local function answer_call(name, waiter, processes, reply, found, now)
  remove_waiters({name}, waiter.queue, waiter.places)
  publish_wake(processes, name, reply)
  if found then wake_queue(waiter.queue, now) end -- nobody had offered it: there may be another one
end

-- Takes a process out of a parked call; nobody waits for its answer there any more.
local function leave_call(name, waiter, process)
  local others = other_processes(waiter.processes, process)
  if others ~= '' then
    redis.call('HSET', K_WAITER .. name, 'p', others)
  else
    remove_waiters({name}, waiter.queue, waiter.places)
  end
end
