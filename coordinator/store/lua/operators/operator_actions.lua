-- What operators do by hand, among the events of the fleet (fleet_events): entries with
--   k action  a who  p project or ''  i of what  r reason  q click, '' for none
--   d '0' as long as it is not known whether it was done
-- owns: none
local fleet_events = require 'fleet_events'

local operator_actions = {}

-- Appends a record, packed {action, who, project, target, reason, click}; about `kept` entries of the stream are.
-- Returns the entry. open = whether it is not done yet.
function operator_actions.add(run, kept, record, open)
  local action, who, project, target, reason, click = unpack(cmsgpack.unpack(record))
  return fleet_events.add(run, kept, action, target, 'a', who, 'p', project, 'r', reason, 'q', click,
    unpack(open and {'d', '0'} or {}))
end

return operator_actions
