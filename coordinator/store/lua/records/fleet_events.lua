-- What happens to the fleet as a whole: a capped stream, fleet_events.
-- owns: fleet_events
local fleet_events = {}

-- Appends an event of a kind about what has this name; further fields and values in pairs. About `kept` entries of the
-- stream are. Returns the entry.
function fleet_events.add(run, kept, kind, name, ...)
  return redis.call('XADD', run.keys.fleet_events, 'MAXLEN', '~', kept, '*', 'k', kind, 'i', name, ...)
end

function fleet_events.remove(run, entry)
  redis.call('XDEL', run.keys.fleet_events, entry)
end

return fleet_events
