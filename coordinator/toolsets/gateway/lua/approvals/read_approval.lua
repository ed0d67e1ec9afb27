--[[
purpose:   Reads one approval, answered or not.
guarantee: Changes nothing.
args:      approval
reply:     Answered (store/audit.py), or {}: there is none
errors:    none
--]]
local approvals = require 'approvals'
local read = require 'read'

return function(run, approval)
  return read(run, function()
    return approvals.row(run, approval) or {}
  end)
end
