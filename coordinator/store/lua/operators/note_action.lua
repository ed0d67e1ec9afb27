--[[
purpose:   Records what an operator is about to do, among the events of the fleet.
guarantee: The stream keeps about `kept` entries. Until settle_action.lua, the record says that it is not known whether
           it was done.
args:      kept record
           record = packed, see operator_actions.lua
reply:     the entry
errors:    none
full:      a capped record, without which an operator could not end what fills the store
--]]
local operator_actions = require 'operator_actions'

return function(run, kept, record)
  return operator_actions.add(run, kept, record, true)
end
