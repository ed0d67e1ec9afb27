--[[
purpose:   Notes that a principal was asked for the open approvals of an instance, and has given no answer.
guarantee: Changes nothing else: anybody can still answer them.
args:      run.events_max workflow principal
reply:     nothing
errors:    none
writes:    gate_approval gate_audit
--]]
local approvals = require 'approvals'

return function(run, workflow, principal)
  approvals.decline(run, workflow, principal)
  return true
end
