--[[
purpose:   Ends the doubt about a recorded action of an operator: it was done, or not and its record goes.
guarantee: The record is replaced in one step.
args:      entry kept done record
           done = 1 or 0; record = packed, see operator_actions.lua
reply:     nothing
errors:    none
full:      a capped record takes the place of another
--]]
local fleet_events = require 'fleet_events'
local operator_actions = require 'operator_actions'

return function(run, entry, kept, done, record)
  fleet_events.remove(run, entry)
  if done == '1' then operator_actions.add(run, kept, record, false) end
  return true
end
