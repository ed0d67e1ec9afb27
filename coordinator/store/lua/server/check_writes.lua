--[[
purpose:   Fails when the server rejects writes: as a replica, after a failed save, with too few replicas.
guarantee: Changes nothing, so nothing is logged or replicated.
args:      none
reply:     nothing
errors:    none
owns:      probe fleet_probe
full:      a full store still serves calls that read, delete or repeat
--]]
return function(run)
  -- As this could write, the server decides before the function begins whether it may. Shards lack keys of the fleet.
  redis.call('DEL', run.keys.fleet_probe or run.keys.probe)
end
