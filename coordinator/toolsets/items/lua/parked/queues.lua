-- The queues of parked claims (waiters.lua) during one call of an operation: each waiter is read once, and
-- served or dropped ones are removed from their queues together at the end (`queues.flush`). A waiter is {id
-- of its request, order of arrival, queue, at = its number there}, with the fields of the key waiter once read
-- (`fingerprint` and `keep_ms` among it, which make it a request as in requests.lua).
-- In a call: processes, by name: what they have registered, false if they are dead; queues, by name: waiters by number,
-- false if one has left; first = the first number that may still exist; last = whether all have been read; gone = ids
-- of those that have left; places = where the queue is looked up, packed.
-- owns: none
local parked = require 'parked'

local queues = {}

local WAITERS_READ = 16 -- at a time
local PASSED_MAX = 4096 -- waiters checked for one item

local function own_of(run)
  run[queues] = run[queues] or {processes = {}, queues = {}}
  return run[queues]
end

-- The names of processes (32 characters each) one by one.
function queues.each_process(processes)
  return string.gmatch(processes, string.rep('.', 32))
end

-- What a process has registered (waiters.lua), false if it is dead.
function queues.registered(run, process)
  local known = own_of(run).processes
  if known[process] == nil then known[process] = redis.call('GET', run.keys.alive .. process) end
  return known[process]
end

-- The live processes, without `process`.
function queues.other_processes(run, processes, process)
  local others = ''
  for other in queues.each_process(processes) do
    if other ~= process and queues.registered(run, other) then others = others .. other end
  end
  return others
end

-- Marks a waiter as served or dropped; it leaves its queue with the others (`queues.flush`).
function queues.leave(run, waiter)
  local state = own_of(run).queues[waiter.queue]
  state[waiter.at], state.gone[#state.gone + 1] = false, waiter.id
end

-- Reads the key waiter of a waiter. One that has timed out, or whose processes have died, leaves.
local function look_at(run, waiter, state)
  local processes, agent, ttl_ms, ends, fingerprint, keep_ms, releases, places, include, used, author =
    unpack(redis.call('HMGET', run.keys.waiter .. waiter.id, 'p', 'a', 't', 'u', 'f', 'k', 'r', 'w', 'i', 'us', 'by'))
  local living = processes and queues.other_processes(run, processes, '') or ''
  waiter.seen, waiter.processes, waiter.agent, waiter.ttl_ms = true, living, agent, ttl_ms
  waiter.fingerprint, waiter.keep_ms, waiter.releases, waiter.include = fingerprint, keep_ms, releases, include
  waiter.used, waiter.author = used, author
  state.places = places or state.places
  if living == '' or tonumber(ends) <= run.now then queues.leave(run, waiter) end
end

-- The n-th waiter of a queue opened by `queues.first`; false if it has left, nil past the end.
function queues.at(run, queue, n)
  local state = own_of(run).queues[queue]
  if state[n] == nil and not state.last then
    local front = redis.call('ZRANGE', run.keys.queue .. queue, n - 1, n + WAITERS_READ - 2, 'WITHSCORES')
    for m = 1, #front, 2 do
      local at = n + (m - 1) / 2
      state[at] = {id = front[m], order = tonumber(front[m + 1]), queue = queue, at = at}
    end
    state.last = #front < 2 * WAITERS_READ
  end
  local waiter = state[n]
  if waiter and not waiter.seen then look_at(run, waiter, state) end
  return state[n]
end

-- The first waiter of a queue, with `may` the first for which may(waiter) is true; nil if there is none, or `may` says
-- in its second value that none will be.
function queues.first(run, queue, may)
  local open = own_of(run).queues
  local state = open[queue] or {first = 1, gone = {}}
  open[queue] = state
  local n, passed = state.first, 0
  while passed < PASSED_MAX do
    local waiter = queues.at(run, queue, n)
    if waiter == nil then return nil end
    if waiter then
      local found, over = true, nil
      if may then found, over = may(waiter) end
      if found then return waiter end
      if over then return nil end
      passed = passed + 1
    elseif state.first == n then
      state.first = n + 1
    end
    n = n + 1
  end
end

-- Whether certainly no waiter of a queue came before `order`.
function queues.none_before(run, queue, order)
  local state = own_of(run).queues[queue]
  if not state then return false end
  local first = state[state.first]
  if first then return first.order >= order end
  return first == nil and state.last
end

-- Removes the leaving waiters from their queues.
function queues.flush(run)
  for queue, state in pairs(own_of(run).queues) do
    if state.gone[1] then parked.remove(run, state.gone, queue, state.places) end
  end
  run[queues].queues = {}
end

queues.PASSED_MAX = PASSED_MAX

return queues
