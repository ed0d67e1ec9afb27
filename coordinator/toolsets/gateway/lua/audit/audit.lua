-- The audit of a project: a stream, gate_audit, of entries with
--   w instance  c operation  a actor  e type of event  p payload as JSON
--   l the instance's entry before, audit.BEGINNING in its first; missing if the instance is not there (any more)
-- The field `l` of an instance's hash (keys.run) has its last entry, so that its own are read without those of others.
-- owns: gate_audit
local owners = require 'owners'

local audit = {}

audit.BEGINNING = '0'

-- Appends an entry; about run.events_max are kept.
function audit.add(run, workflow, operation, actor, event, payload)
  local before = redis.call('HGET', run.keys.run .. workflow, 'l')
  local entry = redis.call('XADD', run.keys.gate_audit, 'MAXLEN', '~', run.events_max, '*', 'w', workflow,
    'c', operation, 'a', actor, 'e', event, 'p', payload, unpack(before and {'l', before} or {}))
  if before then owners.set(run, workflow, 'l', entry) end
end

-- Entries of an instance from one of them back (nil: from its last), at most `most`, as {entry, fields and values in
-- turn}; and the entry before these, audit.BEGINNING if there is none, nil: not known. Fewer than `most` although there
-- is one before: that was trimmed.
function audit.of_instance(run, workflow, entry, most)
  local rows = {}
  entry = entry or redis.call('HGET', run.keys.run .. workflow, 'l') or nil
  while entry and entry ~= audit.BEGINNING and #rows < most do
    local found = redis.call('XRANGE', run.keys.gate_audit, entry, entry)[1]
    if not found then break end
    local facts, flat = {}, found[2]
    for n = 1, #flat, 2 do facts[flat[n]] = flat[n + 1] end
    if facts.w ~= workflow then break end
    rows[#rows + 1], entry = found, facts.l
  end
  return rows, entry
end

return audit
