-- Processes that wait for the end of an instance's operation in progress: a set per instance, gate_waiters. Each
-- process listens on its own channel (listener.py).
-- owns: gate_waiters
local waiters = {}

local CHANNEL = 'fc:gate:'
local LISTED_SECONDS = 120

-- Registers a process to be notified when the operation is over; '' is none.
function waiters.add(run, workflow, process)
  if process == '' then return end
  redis.call('SADD', run.keys.gate_waiters .. workflow, process)
  redis.call('EXPIRE', run.keys.gate_waiters .. workflow, LISTED_SECONDS)
end

-- Notifies all waiting processes, and forgets them.
function waiters.tell(run, workflow)
  for _, process in ipairs(redis.call('SMEMBERS', run.keys.gate_waiters .. workflow)) do
    redis.call('PUBLISH', CHANNEL .. process, run.project .. ' ' .. workflow)
  end
  waiters.forget(run, workflow)
end

function waiters.forget(run, workflow)
  redis.call('DEL', run.keys.gate_waiters .. workflow)
end

return waiters
