--[[
purpose:   Notes that a source of keys failed.
guarantee: The copy of its last good keys stays. When a source begins to fail, one event for the whole fleet is written.
args:      source label trouble kind rest_ms keep_ms run.events_max
           rest_ms = for how long nobody may ask the source
reply:     the time, Unix milliseconds
errors:    none
writes:    key_copy key_fetch_lease fleet_events
--]]
local clock = require 'clock'

return function(run, source, label, trouble, kind, rest_ms, keep_ms)
  local copy, lease = run.keys.key_copy .. source, run.keys.key_fetch_lease .. source
  if redis.call('HSETNX', copy, 's', clock.whole(run.now)) == 1 then
    redis.call('XADD', run.keys.fleet_events, 'MAXLEN', '~', run.events_max, '*', 'k', 'identity.keys_failing',
      'i', label, 'r', trouble)
  end
  redis.call('HSET', copy, 'e', trouble, 'k', kind)
  if redis.call('PTTL', copy) < 0 then redis.call('PEXPIRE', copy, keep_ms) end
  redis.call('SET', lease, 'done', 'PX', rest_ms)
  return run.now
end
