-- Each change is appended to the project's capped event stream: the source of change feeds, waiting claims and
-- after-the-fact proofs. Stream ids carry the server's time in milliseconds.
-- owns: events
local events = {}

local TRIM_EVERY, OFTEN_BELOW = 16, 10000

-- Whether this call trims the streams to which it appends. One in 16 does, by the clock: three more arguments make an
-- append a fifth dearer, and streams are trimmed roughly anyway. Short streams are trimmed by all calls.
function events.trims(run)
  return run.now % TRIM_EVERY == 0 or run.events_max - OFTEN_BELOW < 0 -- events_max may be a text
end

-- Appends an event of this kind about the thing with this id; further fields and values in pairs.
function events.emit(run, kind, id, ...)
  if not events.trims(run) then return redis.call('XADD', run.keys.events, '*', 'k', kind, 'i', id, ...) end
  return redis.call('XADD', run.keys.events, 'MAXLEN', '~', run.events_max, '*', 'k', kind, 'i', id, ...)
end

-- The same, to the stream of the project whose keys begin with `prefix`.
function events.emit_to(run, prefix, kind, id, ...)
  local own = run.keys.events
  local key = prefix == run.keys.prefix and own or prefix .. string.sub(own, #run.keys.prefix + 1)
  if not events.trims(run) then return redis.call('XADD', key, '*', 'k', kind, 'i', id, ...) end
  return redis.call('XADD', key, 'MAXLEN', '~', run.events_max, '*', 'k', kind, 'i', id, ...)
end

return events
