-- Where the event stream of a project stands: an id is a position in the history of one server, which another server
-- may not have.
-- owns: none
local position = {}

-- The id of this server's history.
function position.history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
end

-- The named fields of the reply to XINFO STREAM; none for a stream that was never written to.
function position.facts(run)
  local facts = {}
  if redis.call('EXISTS', run.keys.events) == 0 then return facts end
  local flat = redis.call('XINFO', 'STREAM', run.keys.events)
  for n = 1, #flat, 2 do facts[flat[n]] = flat[n + 1] end
  return facts
end

-- The last id of the stream, from its facts.
function position.last(facts)
  return facts['last-generated-id'] or '0-0'
end

return position
