-- The last good keys of each source, and who may ask it next. By source:
--   key_copy         f when they were fetched (ms)  d the document  s since when the source fails (ms)  e its trouble
--                    k the kind of that
--   key_fetch_lease  busy: a process asks right now; done: nobody may ask yet
-- owns: key_copy key_fetch_lease
local clock = require 'clock'
local fleet_events = require 'fleet_events'

local key_copies = {}

-- Takes the lease for asking a source, for some ms; whether nobody had it.
function key_copies.lease(run, source, lease_ms)
  return redis.call('SET', run.keys.key_fetch_lease .. source, 'busy', 'NX', 'PX', lease_ms)
end

local function rest(run, source, rest_ms)
  redis.call('SET', run.keys.key_fetch_lease .. source, 'done', 'PX', rest_ms)
end

-- A source failed: nobody asks it for `rest_ms`.
function key_copies.fail(run, source, label, trouble, kind, rest_ms, keep_ms)
  local copy = run.keys.key_copy .. source
  if redis.call('HSETNX', copy, 's', clock.whole(run.now)) == 1 then
    fleet_events.add(run, run.events_max, 'identity.keys_failing', label, 'r', trouble)
  end
  redis.call('HSET', copy, 'e', trouble, 'k', kind)
  if redis.call('PTTL', copy) < 0 then redis.call('PEXPIRE', copy, keep_ms) end
  rest(run, source, rest_ms)
end

-- A source gave its keys.
function key_copies.keep(run, source, label, document, rest_ms, keep_ms)
  local copy = run.keys.key_copy .. source
  local before, failed = unpack(redis.call('HMGET', copy, 'd', 'e'))
  redis.call('HSET', copy, 'f', clock.whole(run.now), 'd', document)
  redis.call('HDEL', copy, 'e', 'k', 's')
  redis.call('PEXPIRE', copy, keep_ms)
  rest(run, source, rest_ms)
  if failed then fleet_events.add(run, run.events_max, 'identity.keys_recovered', label) end
  if before and before ~= document then fleet_events.add(run, run.events_max, 'identity.keys_changed', label) end
end

return key_copies
