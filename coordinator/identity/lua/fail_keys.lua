--[[
purpose:   Notes that a source of keys failed.
guarantee: The copy of its last good keys stays. When a source begins to fail, one event for the whole fleet says so.
args:      source label trouble kind rest_ms keep_ms events_max
           rest_ms = for how long nobody may ask the source
reply:     the time, Unix milliseconds
errors:    none
--]]
-- @include keys
-- @include clock

local now = server_time()
local copy, lease = K_KEY_COPY .. source, K_KEY_FETCH_LEASE .. source
if redis.call('HSETNX', copy, 's', whole(now)) == 1 then
  redis.call('XADD', K_FLEET_EVENTS, 'MAXLEN', '~', events_max, '*', 'k', 'identity.keys_failing', 'i', label, 'r', trouble)
end
redis.call('HSET', copy, 'e', trouble, 'k', kind)
if redis.call('PTTL', copy) < 0 then redis.call('PEXPIRE', copy, keep_ms) end
redis.call('SET', lease, 'done', 'PX', rest_ms)
return now
