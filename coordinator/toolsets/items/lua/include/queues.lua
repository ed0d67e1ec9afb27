-- @include batch
-- The queues of parked claims (include/waiters.lua) during one run of a script: each waiter is read once, and those
-- that are served or dropped are removed from their queues together at the end (`flush_queues`). A waiter is
-- {name, order of arrival, queue, at = its number there}, with the fields of K_WAITER once it has been read.

local WAITERS_READ = 16 -- at a time
local PASSED_MAX = 256 -- for one item below a held one, in search of its holder among the waiters
local queue_states = {} -- by queue: its waiters by number, false for one that leaves; first, last, gone, places
local known_processes = {} -- by name: whether it lives

-- Removes calls from a queue. If the queue is empty then, removes it from its places (packed, nil if unknown).
local function remove_waiters(names, queue, places)
  local keys = {}
  for n, name in ipairs(names) do keys[n] = K_WAITER .. name end
  call_in_parts('ZREM', K_QUEUE .. queue, names)
  call_in_parts('DEL', nil, keys)
  if places and redis.call('EXISTS', K_QUEUE .. queue) == 0 then
    redis.call('ZREM', K_WAITING, queue)
    for _, place in ipairs(cmsgpack.unpack(places)) do redis.call('HDEL', K_WANTED .. place, queue) end
  end
end

-- The names of processes (32 characters each) one by one.
local function each_process(processes)
  return string.gmatch(processes, string.rep('.', 32))
end

local function is_process_alive(process)
  if known_processes[process] == nil then known_processes[process] = redis.call('EXISTS', K_ALIVE .. process) == 1 end
  return known_processes[process]
end

-- Those of the processes that live, without `process`.
local function other_processes(processes, process)
  local others = ''
  for other in each_process(processes) do
    if other ~= process and is_process_alive(other) then others = others .. other end
  end
  return others
end

-- The waiter was served or has to be dropped: it leaves its queue together with the others (`flush_queues`).
local function leave_queue(waiter)
  local state = queue_states[waiter.queue]
  state[waiter.at], state.gone[#state.gone + 1] = false, waiter.name
end

-- Reads the fields of K_WAITER of a waiter. A waiter whose time is over, or whose processes have died, leaves.
local function look_at_waiter(waiter, state, now)
  local processes, agent, ttl_ms, ends, fingerprint, keep_ms, releases, places =
    unpack(redis.call('HMGET', K_WAITER .. waiter.name, 'p', 'a', 't', 'u', 'f', 'k', 'r', 'w'))
  local living = processes and other_processes(processes, '') or ''
  waiter.seen, waiter.processes, waiter.agent, waiter.ttl_ms = true, living, agent, ttl_ms
  waiter.fingerprint, waiter.keep_ms, waiter.releases = fingerprint, keep_ms, releases
  state.places = places or state.places
  if living == '' or tonumber(ends) <= now then leave_queue(waiter) end
end

-- The n-th of a queue; false where it has left, nil past the end.
local function waiter_at(queue, n, now)
  local state = queue_states[queue]
  if state[n] == nil and not state.last then
    local front = redis.call('ZRANGE', K_QUEUE .. queue, n - 1, n + WAITERS_READ - 2, 'WITHSCORES')
    for m = 1, #front, 2 do
      local at = n + (m - 1) / 2
      state[at] = {name = front[m], order = tonumber(front[m + 1]), queue = queue, at = at}
    end
    state.last = #front < 2 * WAITERS_READ
  end
  local waiter = state[n]
  if waiter and not waiter.seen then look_at_waiter(waiter, state, now) end
  return state[n]
end

-- The first of a queue, of `agent` unless nil.
local function front_waiter(queue, agent, now)
  local state = queue_states[queue] or {first = 1, gone = {}}
  queue_states[queue] = state
  local n, passed = state.first, 0
  while passed < PASSED_MAX do
    local waiter = waiter_at(queue, n, now)
    if waiter == nil then return nil end
    if waiter and (not agent or waiter.agent == agent) then return waiter end
    if waiter then
      passed = passed + 1
    elseif state.first == n then
      state.first = n + 1
    end
    n = n + 1
  end
end

-- Whether it is known that nobody in a queue came before `order`.
local function none_before(queue, order)
  local state = queue_states[queue]
  if not state then return false end
  local first = state[state.first]
  if first then return first.order >= order end
  return first == nil and state.last
end

-- Removes the leaving waiters from their queues.
local function flush_queues()
  for queue, state in pairs(queue_states) do
    if state.gone[1] then remove_waiters(state.gone, queue, state.places) end
  end
  queue_states = {}
end
