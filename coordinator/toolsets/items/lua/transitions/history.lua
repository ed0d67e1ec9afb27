-- The history of role changes of a project.
--   transitions  entries with the packed row {id, from, to, trigger, label before, label, summary, actor, verification,
--                the entry of the item's transition before}
-- owns: transitions
local events = require 'events'

local history = {}

-- Appends a packed row; returns its entry.
function history.append(run, row)
  if not events.trims(run) then return redis.call('XADD', run.keys.transitions, '*', 'r', row) end
  return redis.call('XADD', run.keys.transitions, 'MAXLEN', '~', run.events_max, '*', 'r', row)
end

-- The same under the entry that it had in another store; false if later ones are there.
function history.restore(run, entry, row)
  local reply
  if events.trims(run) then
    reply = redis.pcall('XADD', run.keys.transitions, 'MAXLEN', '~', run.events_max, entry, 'r', row)
  else
    reply = redis.pcall('XADD', run.keys.transitions, entry, 'r', row)
  end
  return not (type(reply) == 'table' and reply.err)
end

return history
