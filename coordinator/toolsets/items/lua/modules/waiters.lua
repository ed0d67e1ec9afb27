-- Parked claims. The operation that makes an item ready hands it to the waiter that has been parked longest among those
-- it suits: it places the claim for the waiter's agent, records the reply under the waiter's request, and publishes it
-- to the process that holds the call. So one item wakes one agent, nothing polls, and the death of a process does no
-- harm: the agent's retry finds the reply.
--
-- A waiter has the id of its request; those with one selector queue in order of arrival:
--   queue    queue: ids by order of arrival
--   waiter   p processes that hold the call (it may be repeated on several), one after the other  a agent  t ttl ms
--              u until (ms)  f fingerprint  k keep ms  r packed releases  q queue  w packed places
--   waiting  queues by when the last call of each ends
--   wanted   place: queue -> when its last call ends (ms, 13 digits) .. selector (packed)
--   alive    process: it lives and can take a call
-- A place is a scope and a class as in modules/classes.lua, or what is below an item at any depth ('a' .. id) and a
-- class: an item leads to the selectors that may suit it and to no others, however many there are. All these keys
-- expire some time after their calls, so those of dead processes do not stay.
local classes = require 'classes'
local clock = require 'clock'
local holders = require 'holders'
local queues = require 'queues'

local QUEUE, STATES = classes.QUEUE, classes.STATES

local waiters = {}

local WAKE_CHANNEL = 'fc:wake:'
local GRACE = 10000 -- ms that a waiter outlives its call

-- Publishes to the processes of a parked call, with its project and its request id: its packed reply, or '' for it to
-- ask again.
function waiters.publish(run, processes, id, reply)
  for process in queues.each_process(processes) do
    redis.call('PUBLISH', WAKE_CHANNEL .. process, run.project .. ' ' .. id .. reply)
  end
end

-- The scopes that every item that suits a selector is in one of.
local function scopes_of(selector)
  if selector.parent then return {'p' .. selector.parent} end
  if selector.ancestor then return {'a' .. selector.ancestor} end
  if selector.type then return {'y' .. selector.type} end
  if not selector.tags then return {'*'} end
  local scopes = {}
  for n, tag in ipairs(selector.tags) do scopes[n] = 'g' .. tag end
  return scopes
end

-- The places that every item that suits a selector leads to one of. What is abandoned leads to two: that of its role,
-- and that of selectors without a role.
local function places_of(selector)
  local places = scopes_of(selector)
  for n, scope in ipairs(places) do places[n] = scope .. ':' .. (selector.role or QUEUE) * STATES end
  return places
end

-- Makes a key live until `ends` at least.
local function extend_expiry(run, key, ends)
  if redis.call('PTTL', key) < ends - run.now then redis.call('PEXPIREAT', key, clock.whole(ends)) end
end

-- Makes the first waiter of a queue ask again, because there may be an item for it that has not been looked at. If that
-- item is below freed items (`around` as for `holders.next`, else nil), it may be within reach of one agent only; so
-- the waiters of agents that hold an item around there ask again too.
function waiters.wake(run, queue, around)
  local waiter = queues.front(run, queue, nil)
  while waiter do
    waiters.publish(run, waiter.processes, waiter.id, '')
    waiter = around and holders.next(run, queue, waiter.at + 1, around)
  end
  queues.flush(run)
end

-- What a request is parked as, with the releases and places packed as stored; nil if it is not parked.
function waiters.load(run, id)
  local processes, queue, releases, fingerprint, places, ends =
    unpack(redis.call('HMGET', run.keys.waiter .. id, 'p', 'q', 'r', 'f', 'w', 'u'))
  if not processes then return nil end
  return {processes = processes, queue = queue, releases = releases, fingerprint = fingerprint, places = places,
    ends = tonumber(ends)}
end

-- Enters a selector at its places, and its queue, as waited for until `ends` (ms) at least.
local function extend_queue(run, queue, packed_selector, places, ends)
  redis.call('ZREMRANGEBYSCORE', run.keys.waiting, '-inf', run.now)
  if (tonumber(redis.call('ZSCORE', run.keys.waiting, queue)) or 0) >= ends then return end
  redis.call('ZADD', run.keys.waiting, ends, queue)
  redis.call('PEXPIREAT', run.keys.queue .. queue, clock.whole(ends))
  extend_expiry(run, run.keys.waiting, ends)
  for _, place in ipairs(places) do
    redis.call('HSET', run.keys.wanted .. place, queue, clock.whole(ends) .. packed_selector)
    extend_expiry(run, run.keys.wanted .. place, ends)
  end
end

-- Parks a call, or keeps it parked, at the end of its queue where it is new there, which is returned. `wait` in ms;
-- `waiter` = what it is parked as, or nil; `fields` = what the key waiter is to have besides processes, until, queue
-- and places, names and values in turn.
function waiters.park(run, request, queue, packed_selector, wait, process, waiter, fields)
  local until_ms = math.max(run.now + wait, waiter and waiter.ends or 0) -- of whoever waits longest for the answer
  local ends, places = until_ms + GRACE, places_of(cmsgpack.unpack(packed_selector))
  local id, new = request.id, not waiter or waiter.queue ~= queue
  run.nobody_waits = false
  if new and waiter then queues.remove(run, {id}, waiter.queue, waiter.places) end
  if new then redis.call('ZADD', run.keys.queue .. queue, redis.call('INCR', run.keys.arrivals), id) end
  extend_queue(run, queue, packed_selector, places, ends)
  local key = run.keys.waiter .. id
  local processes = (waiter and queues.other_processes(run, waiter.processes, process) or '') .. process
  redis.call('HSET', key, 'p', processes, 'u', clock.whole(until_ms), 'q', queue, 'w', cmsgpack.pack(places),
    unpack(fields))
  redis.call('PEXPIREAT', key, clock.whole(ends))
  return new
end

-- Ends a parked call with a packed reply, which the caller records; `processes` = those that are told.
function waiters.answer(run, id, waiter, processes, reply)
  queues.remove(run, {id}, waiter.queue, waiter.places)
  waiters.publish(run, processes, id, reply)
end

-- Takes a process out of a parked call; nobody waits for its answer there any more.
function waiters.leave(run, id, waiter, process)
  local others = queues.other_processes(run, waiter.processes, process)
  if others ~= '' then
    redis.call('HSET', run.keys.waiter .. id, 'p', others)
  else
    queues.remove(run, {id}, waiter.queue, waiter.places)
  end
end

return waiters
