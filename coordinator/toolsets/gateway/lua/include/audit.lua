-- @include keys
-- Appends an entry to the audit; `payload` is JSON.
local function audit(cap, workflow, op, actor, kind, payload)
  redis.call('XADD', K_GATE_AUDIT, 'MAXLEN', '~', cap, '*', 'w', workflow, 'c', op, 'a', actor, 'e', kind, 'p', payload)
end
