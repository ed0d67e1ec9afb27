--[[
purpose:   Begins or ends a drain: processes in its scope take no new work.
guarantee: Beginning a drain again keeps the time of the first begin. The record of who has done it is written in the
           same step.
args:      scope on kept record
           scope = fleet, host:<name> or process:<host>/<slot>; on = 1 or 0; record = packed, see
           operator_actions.lua, or '' for none
reply:     rows {scope, since ms}: all drains in force
errors:    none
full:      it stores a short name or deletes one, with a capped record
--]]
local drains = require 'drains'
local operator_actions = require 'operator_actions'

return function(run, scope, on, kept, record)
  drains.set(run, scope, on == '1')
  if record ~= '' then operator_actions.add(run, kept, record, false) end
  return cmsgpack.pack(drains.rows(run))
end
