-- @include keys
-- The audit of a project: a stream, K_GATE_AUDIT, of entries with
--   w instance  c operation  a actor  e type of event  p payload as JSON

-- Appends an entry; about `cap` of them are kept.
local function audit(cap, workflow, operation, actor, event, payload)
  redis.call('XADD', K_GATE_AUDIT, 'MAXLEN', '~', cap, '*', 'w', workflow, 'c', operation, 'a', actor, 'e', event,
    'p', payload)
end
