--[[
purpose:   Records what an operator does, among the events of the fleet.
guarantee: The stream keeps about `kept` entries. The record takes the place of an earlier one in one step.
args:      entry kept record
           entry = the earlier one, '' for none; record = packed {kind, target, then fields and values in pairs}, which
           coordinator/operations/log.py alone writes and reads
reply:     the entry
errors:    none
full:      a capped record, without which an operator could not end what fills the store
--]]
local fleet_events = require 'fleet_events'

return function(run, entry, kept, record)
  if entry ~= '' then fleet_events.remove(run, entry) end
  return fleet_events.add(run, kept, unpack(cmsgpack.unpack(record)))
end
