-- @include keys
-- Processes that are told when the operation under way on an instance is over, each on its own channel.

local WAKE = 'fc:gate:'
local PATIENCE = 120 -- s that a process is on the list

-- Puts a process on the list; '' is none.
local function await(workflow, process)
  if process == '' then return end
  redis.call('SADD', K_GATE_WAITERS .. workflow, process)
  redis.call('EXPIRE', K_GATE_WAITERS .. workflow, PATIENCE)
end

-- Tells them, and forgets them.
local function wake(workflow)
  local project = string.sub(P, 5, -3)
  for _, process in ipairs(redis.call('SMEMBERS', K_GATE_WAITERS .. workflow)) do
    redis.call('PUBLISH', WAKE .. process, project .. ' ' .. workflow)
  end
  redis.call('DEL', K_GATE_WAITERS .. workflow)
end
