-- Each change is appended to the project's capped event stream: the source of change feeds, waiting claims and
-- after-the-fact proofs. Stream ids carry the server's time in milliseconds.
local events = {}

-- Appends an event of this kind about the thing with this id; further fields and values in pairs.
function events.emit(run, kind, id, ...)
  return redis.call('XADD', run.keys.events, 'MAXLEN', '~', run.events_max, '*', 'k', kind, 'i', id, ...)
end

-- The same, to the stream of another project.
function events.emit_to(run, key, kind, id, ...)
  return redis.call('XADD', key, 'MAXLEN', '~', run.events_max, '*', 'k', kind, 'i', id, ...)
end

return events
