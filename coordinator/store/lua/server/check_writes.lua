--[[
purpose:   Fails when the server rejects writes: as a replica, after a failed save, with too few replicas.
guarantee: Changes nothing, so nothing is logged or replicated.
args:      none
reply:     nothing
errors:    none
writes:    drains agents
full:      a full store still serves calls that read, delete or repeat
--]]
return function(run)
  -- No scope and no agent is ''. As this could write, the server decides before the function begins whether it may.
  if run.keys.drains then
    redis.call('HDEL', run.keys.drains, '')
  else -- a shard without the keys of the fleet
    redis.call('HDEL', run.keys.agents, '')
  end
end
