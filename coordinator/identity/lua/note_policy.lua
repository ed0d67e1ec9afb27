--[[
purpose:   Notes the degraded-mode policy that a process applies from now on.
guarantee: One event is written for a change, however many processes make it.
args:      policy verifier run.events_max
reply:     1 if the fleet had another policy before
errors:    none
owns:      identity_mode
full:      it writes two words
--]]
local fleet_events = require 'fleet_events'

return function(run, policy, verifier)
  local before = redis.call('HMGET', run.keys.identity_mode, 'p', 'v')
  if before[1] == policy and before[2] == verifier then return 0 end
  redis.call('HSET', run.keys.identity_mode, 'p', policy, 'v', verifier)
  if not before[1] then return 0 end
  fleet_events.add(run, run.events_max, 'identity.policy_changed', policy, 'v', verifier, 'p', before[1],
    'w', before[2])
  return 1
end
