-- @include keys
-- Processes that wait for the end of the operation under way on an instance: a set per instance, K_GATE_WAITERS. Each
-- process listens on its own channel (listener.py).

local CHANNEL = 'fc:gate:'
local LISTED_SECONDS = 120

-- Registers a process to be notified when the operation is over; '' is none.
local function add_waiter(workflow, process)
  if process == '' then return end
  redis.call('SADD', K_GATE_WAITERS .. workflow, process)
  redis.call('EXPIRE', K_GATE_WAITERS .. workflow, LISTED_SECONDS)
end

-- Notifies all waiting processes, and forgets them.
local function tell_waiters(workflow)
  local project = string.sub(P, 5, -3)
  for _, process in ipairs(redis.call('SMEMBERS', K_GATE_WAITERS .. workflow)) do
    redis.call('PUBLISH', CHANNEL .. process, project .. ' ' .. workflow)
  end
  redis.call('DEL', K_GATE_WAITERS .. workflow)
end
