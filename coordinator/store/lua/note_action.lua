--[[
purpose:   Records what an operator is about to do, among the events of the fleet.
guarantee: The stream keeps about `kept` entries.
args:      kept action who project target reason click
reply:     the entry
errors:    none
writes:    fleet_events
full:      a capped record, without which an operator could not end what fills the store
--]]
return function(run, kept, action, who, project, target, reason, click)
  return redis.call('XADD', run.keys.fleet_events, 'MAXLEN', '~', kept, '*', 'k', action, 'i', target, 'a', who,
    'p', project, 'r', reason, 'q', click)
end
