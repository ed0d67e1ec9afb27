--[[
purpose:   Shares the keys that a source just gave with every process of the fleet.
guarantee: Replaces the copy as a whole; the source no longer counts as failing. One event for the whole fleet says
           that keys are new, and one that a failing source has recovered.
args:      source label document rest_ms keep_ms events_max
           rest_ms = for how long nobody may ask the source
reply:     the time, Unix milliseconds
errors:    none
--]]
-- @include keys
-- @include clock

local now = server_time()
local copy, lease = K_KEY_COPY .. source, K_KEY_FETCH_LEASE .. source
local held = redis.call('HMGET', copy, 'd', 'e')
redis.call('HSET', copy, 'f', whole(now), 'd', document)
redis.call('HDEL', copy, 'e', 'k', 's')
redis.call('PEXPIRE', copy, keep_ms)
redis.call('SET', lease, 'done', 'PX', rest_ms)
local function tell(kind)
  redis.call('XADD', K_FLEET_EVENTS, 'MAXLEN', '~', events_max, '*', 'k', kind, 'i', label)
end
if held[2] then tell('identity.keys_recovered') end
if held[1] and held[1] ~= document then tell('identity.keys_changed') end
return now
