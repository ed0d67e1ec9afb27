--[[
purpose:   Takes, renews or gives back a leader lease, whose holder runs a task for the whole fleet.
guarantee: One process has it at a time; it lapses unless its holder renews it in time.
args:      what process milliseconds
           milliseconds = how long it lasts; 0 gives it back
reply:     1 if the process has it now, else 0
errors:    none
writes:    leader_lease
full:      a lease is small, and the task that it is for may free memory
--]]
return function(run, what, process, milliseconds)
  local key = run.keys.leader_lease .. what
  local holder = redis.call('GET', key)
  if holder and holder ~= process then return 0 end
  if milliseconds == '0' then
    redis.call('DEL', key)
    return 0
  end
  redis.call('SET', key, process, 'PX', milliseconds)
  return 1
end
