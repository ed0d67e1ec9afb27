-- Parked claims. The operation that makes an item ready hands it to the longest parked matching waiter: it places the
-- claim for the waiter's agent, records the reply under the waiter's request, and publishes it to the process that
-- holds the call. So one item wakes one agent, nothing polls, and a process may die: the agent's retry finds the reply.
--
-- parked.lua has how they are stored. A place is a scope and a class as in classes.lua, or what is below an item at any
-- depth ('a' .. id) and a class: an item leads only to the selectors that may match it, however many there are.
--   alive  process: it lives and can take a call. COUNTED and more: so many messages were published to it since; a
--            process of a cluster compares that with what it has heard, because the nodes may lose a message
-- owns: alive
local absence = require 'absence'
local agents = require 'agents'
local classes = require 'classes'
local clock = require 'clock'
local holders = require 'holders'
local parked = require 'parked'
local queues = require 'queues'

local QUEUE, STATES = classes.QUEUE, classes.STATES

local waiters = {}

local WAKE_CHANNEL = 'fc:wake:'
local COUNTED = 2 -- 1: messages are not counted
local GRACE = 10000 -- ms that a waiter is kept after its call
local QUEUES_COUNTED = 1000

-- Publishes to the processes of a parked call, with its project and its request id: its packed reply, or '' to make it
-- retry.
function waiters.publish(run, processes, id, reply)
  for process in queues.each_process(processes) do
    if tonumber(queues.registered(run, process) or 0) >= COUNTED then redis.call('INCR', run.keys.alive .. process) end
    redis.call('PUBLISH', WAKE_CHANNEL .. process, run.project .. ' ' .. id .. reply)
  end
end

-- Registers a process as alive; `counted` = '1': its messages are counted. Returns how many were published to it, -1 if
-- it was not registered.
function waiters.register(run, process, alive_ms, counted)
  local key, first = run.keys.alive .. process, counted == '1' and COUNTED or 1
  local told = redis.call('GET', key)
  if not told then
    redis.call('SET', key, first, 'PX', alive_ms)
    return -1
  end
  redis.call('PEXPIRE', key, alive_ms)
  return told - first
end

-- Scopes such that every match of a selector is in one of them.
local function scopes_of(selector)
  if selector.parent then return {'p' .. selector.parent} end
  if selector.ancestor then return {'a' .. selector.ancestor} end
  if selector.type then return {'y' .. selector.type} end
  if not selector.tags then return {'*'} end
  local scopes = {}
  for n, tag in ipairs(selector.tags) do scopes[n] = 'g' .. tag end
  return scopes
end

-- Places such that every match of a selector leads to one of them. Abandoned items lead to two: that of their role, and
-- that of selectors without a role.
local function places_of(selector)
  local places = scopes_of(selector)
  for n, scope in ipairs(places) do places[n] = scope .. ':' .. (selector.role or QUEUE) * STATES end
  return places
end

-- Makes the first waiter of a queue retry, because there may be an unchecked item for it. If that item is below freed
-- items (`around` as for `holders.next`, else nil), it may be available to one agent only; so the waiters of agents
-- that hold an item around there retry too.
function waiters.wake(run, queue, around)
  local waiter = queues.first(run, queue)
  while waiter do
    waiters.publish(run, waiter.processes, waiter.id, '')
    waiter = holders.next(run, queue, waiter.at + 1, around)
  end
  queues.flush(run)
end

-- The waiter of a request, with releases and places packed as stored; nil if it is not parked.
function waiters.load(run, id)
  local processes, queue, releases, fingerprint, places, ends, agent, keep_ms =
    unpack(redis.call('HMGET', run.keys.waiter .. id, 'p', 'q', 'r', 'f', 'w', 'u', 'a', 'k'))
  if not processes then return nil end
  return {processes = processes, queue = queue, releases = releases, fingerprint = fingerprint, places = places,
    ends = tonumber(ends), agent = agent, keep_ms = keep_ms}
end

-- The selector of a queue registered at these places (packed); nil if it is not any more.
function waiters.selector_at(run, queue, places)
  local stored = redis.call('HGET', run.keys.wanted .. cmsgpack.unpack(places)[1], queue)
  return stored and cmsgpack.unpack(string.sub(stored, 14)) or nil
end

-- Parks a call, at the end of its queue if it is new there, or keeps it parked; returns whether it is new. `wait` in
-- ms; `waiter` = its waiter, or nil; `fields` = fields of the key waiter besides processes, agent, until, queue and
-- places, names and values in turn.
function waiters.park(run, request, agent, queue, packed_selector, wait, process, waiter, fields)
  local until_ms = math.max(run.now + wait, waiter and waiter.ends or 0) -- the latest deadline of its calls
  local ends, places = until_ms + GRACE, places_of(cmsgpack.unpack(packed_selector))
  local id = request.id
  -- It may have left since it was loaded: its time was over.
  local new = not waiter or waiter.queue ~= queue or not redis.call('ZSCORE', run.keys.queue .. queue, id)
  absence.forget(run, {run.keys.waiting})
  if new and waiter then parked.remove(run, {id}, waiter.queue, waiter.places) end
  if new then
    parked.append(run, queue, id)
    if not waiter then agents.park(run, agent, id) end
  end
  parked.extend_queue(run, queue, packed_selector, places, ends)
  local processes = (waiter and queues.other_processes(run, waiter.processes, process) or '') .. process
  local own = {'p', processes, 'a', agent, 'u', clock.whole(until_ms), 'q', queue, 'w', cmsgpack.pack(places)}
  for n = 1, #fields do own[10 + n] = fields[n] end
  parked.write(run, id, own, ends)
  return new
end

-- The selector that a parked call of an agent waits for; nil if the call no longer waits.
function waiters.selector_of(run, id, agent)
  local holder, queue, places, ends = unpack(redis.call('HMGET', run.keys.waiter .. id, 'a', 'q', 'w', 'u'))
  if holder ~= agent or tonumber(ends) <= run.now then return nil end
  return waiters.selector_at(run, queue, places)
end

-- How many calls are parked; those of dead processes count until they would have ended.
function waiters.count(run)
  local number = 0
  for _, queue in ipairs(redis.call('ZRANGE', run.keys.waiting, 0, QUEUES_COUNTED - 1)) do
    number = number + redis.call('ZCARD', run.keys.queue .. queue)
  end
  return number
end

-- Ends a parked call with a packed reply, which the caller records; `processes` = those to notify.
function waiters.answer(run, id, waiter, processes, reply)
  parked.remove(run, {id}, waiter.queue, waiter.places)
  waiters.publish(run, processes, id, reply)
end

-- Removes a process from a parked call, because nobody waits there any more.
function waiters.leave(run, id, waiter, process)
  local others = queues.other_processes(run, waiter.processes, process)
  if others ~= '' then
    parked.write(run, id, {'p', others})
  else
    parked.remove(run, {id}, waiter.queue, waiter.places)
  end
end

return waiters
