-- @include together
-- The queues of parked claims (include/waiters.lua) as one run of a script goes through them: each waiter is read
-- once, and those that are served or dropped leave their queues together at the end (`flush_queues`).

local WAITERS_READ = 16 -- waiters read at a time
local PASSED_MAX = 256 -- waiters passed over, for one item below a held one, in search of its holder
local queues_read, known_processes = {}, {}

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

local function is_process_alive(process)
  if known_processes[process] == nil then known_processes[process] = redis.call('EXISTS', K_ALIVE .. process) == 1 end
  return known_processes[process]
end

-- The waiter is served or not to be: it leaves its queue with the others.
local function leave_queue(waiter)
  local line = queues_read[waiter.queue]
  line[waiter.at], line.gone[#line.gone + 1] = false, waiter.name
end

-- The n-th of a queue: name, order of arrival, fields; false where it has left, nil past the end. One whose time
-- is over or whose process died leaves.
local function waiter_at(queue, n, now)
  local line = queues_read[queue]
  if line[n] == nil and not line.last then
    local front = redis.call('ZRANGE', K_QUEUE .. queue, n - 1, n + WAITERS_READ - 2, 'WITHSCORES')
    for m = 1, #front, 2 do
      local at = n + (m - 1) / 2
      line[at] = {name = front[m], order = tonumber(front[m + 1]), queue = queue, at = at}
    end
    line.last = #front < 2 * WAITERS_READ
  end
  local waiter = line[n]
  if waiter and not waiter.fields then
    local values = redis.call('HMGET', K_WAITER .. waiter.name, 'p', 'a', 't', 'u', 'f', 'k', 'r', 'w')
    waiter.fields, line.places = values, values[8] or line.places
    if not values[1] or tonumber(values[4]) <= now or not is_process_alive(values[1]) then leave_queue(waiter) end
  end
  return line[n]
end

-- The first of a queue, of `agent` unless nil.
local function front_waiter(queue, agent, now)
  local line = queues_read[queue] or {first = 1, gone = {}}
  queues_read[queue] = line
  local n, passed = line.first, 0
  while passed < PASSED_MAX do
    local waiter = waiter_at(queue, n, now)
    if waiter == nil then return nil end
    if waiter and (not agent or waiter.fields[2] == agent) then return waiter end
    if waiter then
      passed = passed + 1
    elseif line.first == n then
      line.first = n + 1
    end
    n = n + 1
  end
end

local holders_left = PASSED_MAX -- waiters that one run looks at for what they hold

-- The next of a queue, from the n-th on, that holds something above or below freed items: `around` = by id, true for
-- these and false for what is above them.
local function next_holder(queue, n, around, now)
  while holders_left > 0 do
    local waiter = waiter_at(queue, n, now)
    if waiter == nil then return nil end
    n, holders_left = n + 1, holders_left - 1
    local id = waiter and redis.call('HGET', K_AGENTS, waiter.fields[2])
    local near = id and around[id] ~= nil
    while id and not near do
      id = redis.call('HGET', K_ITEM .. id, 'pa')
      near = id and around[id]
    end
    if near then return waiter end
  end
end

-- Notes a freed item for `next_holder`.
local function note_freed(id, around)
  around[id] = true
  local above = redis.call('HGET', K_ITEM .. id, 'pa')
  while above do
    around[above] = around[above] or false
    above = redis.call('HGET', K_ITEM .. above, 'pa')
  end
end

-- Whether it is known that nobody in a queue came before `order`.
local function none_before(queue, order)
  local line = queues_read[queue]
  if not line then return false end
  local first = line[line.first]
  if first then return first.order >= order end
  return first == nil and line.last
end

local function flush_queues()
  for queue, line in pairs(queues_read) do
    if line.gone[1] then remove_waiters(line.gone, queue, line.places) end
  end
  queues_read = {}
end
