--[[
purpose:   Settles debts of earlier operations, a bounded part per call.
guarantee: Settled debts are removed in the same step, so any process can continue.
args:      none
reply:     whether no debts are left, as far as this call has seen
errors:    none
writes:    item text ranked beneath owed leases agents agent_attempts apart demands resources passed_over reserved usage
           usage_ranked spent_budgets spent_ended holds lapsed abandoned retries backoffs postponed due recurring
           occurrences quarantined notes note request events transitions waiting wanted queue waiter alive messages
--]]
local settle = require 'settle'

return function(run)
  return cmsgpack.pack(settle.debts(run))
end
