--[[
purpose:   Settles debts of earlier operations, a bounded part per call.
guarantee: Settled debts are removed in the same step, so any process can continue.
args:      none
reply:     whether no debts are left, as far as this call has seen
errors:    none
--]]
local settle = require 'settle'

return function(run)
  return cmsgpack.pack(settle.debts(run))
end
