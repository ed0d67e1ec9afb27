--[[
purpose:   Notes that a principal was asked for the open approvals of an instance, and has given no answer.
guarantee: Only those of the version that the question was about, and each once. Changes nothing else: anybody can still
           answer them.
args:      run.events_max workflow version principal
reply:     nothing
errors:    none
--]]
local approvals = require 'approvals'
local instances = require 'instances'

return function(run, workflow, version, principal)
  local inst = instances.load(run, workflow)
  if inst and inst.version == tonumber(version) then approvals.decline(run, workflow, principal) end
  return true
end
