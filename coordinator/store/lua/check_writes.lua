--[[
purpose:   Fails when the server rejects writes: as a replica, after a failed save, with too few replicas.
guarantee: Changes nothing, so nothing is logged or replicated.
args:      none
reply:     nothing
errors:    none
writes:    drains
full:      a full store still serves calls that read, delete or repeat
--]]
return function(run)
  -- No scope is ''. As this could write, the server decides before the function begins whether it may.
  redis.call('HDEL', run.keys.drains, '')
end
