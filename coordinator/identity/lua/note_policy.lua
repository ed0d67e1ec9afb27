--[[
purpose:   Notes the degraded-mode policy that a process applies from now on.
guarantee: One event is written for a change, however many processes make it.
args:      policy verifier run.events_max
reply:     1 if the fleet had another policy before
errors:    none
writes:    identity_mode fleet_events
full:      it writes two words
--]]
return function(run, policy, verifier)
  local before = redis.call('HMGET', run.keys.identity_mode, 'p', 'v')
  if before[1] == policy and before[2] == verifier then return 0 end
  redis.call('HSET', run.keys.identity_mode, 'p', policy, 'v', verifier)
  if not before[1] then return 0 end
  redis.call('XADD', run.keys.fleet_events, 'MAXLEN', '~', run.events_max, '*', 'k', 'identity.policy_changed',
    'i', policy, 'v', verifier, 'p', before[1], 'w', before[2])
  return 1
end
