-- The audit of a project: a stream, gate_audit, of entries with
--   w instance  c operation  a actor  e type of event  p payload as JSON
local audit = {}

-- Appends an entry; about run.events_max are kept.
function audit.add(run, workflow, operation, actor, event, payload)
  redis.call('XADD', run.keys.gate_audit, 'MAXLEN', '~', run.events_max, '*', 'w', workflow, 'c', operation, 'a', actor,
    'e', event, 'p', payload)
end

return audit
