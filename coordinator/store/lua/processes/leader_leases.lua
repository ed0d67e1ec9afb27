-- Leader leases: leader_lease .. what names the process that has it, until it lapses.
-- owns: leader_lease
local leader_leases = {}

-- Takes or renews a lease for some ms; whether the process has it now.
function leader_leases.take(run, what, process, milliseconds)
  local key = run.keys.leader_lease .. what
  local holder = redis.call('GET', key)
  if holder and holder ~= process then return false end
  redis.call('SET', key, process, 'PX', milliseconds)
  return true
end

-- Gives a lease back, if the process has it.
function leader_leases.give_back(run, what, process)
  local key = run.keys.leader_lease .. what
  if redis.call('GET', key) == process then redis.call('DEL', key) end
end

return leader_leases
