--[[
purpose:   Shares the keys that a source just gave with every process of the fleet.
guarantee: Replaces the copy as a whole; the source no longer counts as failing. One event for the whole fleet is
           written when keys are new, and one when a failing source has recovered.
args:      source label document rest_ms keep_ms run.events_max
           rest_ms = for how long nobody may ask the source
reply:     the time, Unix milliseconds
errors:    none
writes:    key_copy key_fetch_lease fleet_events
--]]
local clock = require 'clock'

local function tell(run, kind, label)
  redis.call('XADD', run.keys.fleet_events, 'MAXLEN', '~', run.events_max, '*', 'k', kind, 'i', label)
end

return function(run, source, label, document, rest_ms, keep_ms)
  local copy, lease = run.keys.key_copy .. source, run.keys.key_fetch_lease .. source
  local held = redis.call('HMGET', copy, 'd', 'e')
  redis.call('HSET', copy, 'f', clock.whole(run.now), 'd', document)
  redis.call('HDEL', copy, 'e', 'k', 's')
  redis.call('PEXPIRE', copy, keep_ms)
  redis.call('SET', lease, 'done', 'PX', rest_ms)
  if held[2] then tell(run, 'identity.keys_recovered', label) end
  if held[1] and held[1] ~= document then tell(run, 'identity.keys_changed', label) end
  return run.now
end
