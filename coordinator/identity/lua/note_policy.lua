--[[
purpose:   Notes the degraded-mode policy that a process applies from now on.
guarantee: There is one event about a change, however many processes make it.
args:      policy verifier events_max
reply:     1 if the fleet had another policy before
errors:    none
full:      two words
--]]
-- @include keys
local before = redis.call('HMGET', K_IDENTITY_MODE, 'p', 'v')
if before[1] == policy and before[2] == verifier then return 0 end
redis.call('HSET', K_IDENTITY_MODE, 'p', policy, 'v', verifier)
if not before[1] then return 0 end
redis.call('XADD', K_FLEET_EVENTS, 'MAXLEN', '~', events_max, '*', 'k', 'identity.policy_changed', 'i', policy,
  'v', verifier, 'p', before[1], 'w', before[2])
return 1
