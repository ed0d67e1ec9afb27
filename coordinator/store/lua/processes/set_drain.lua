--[[
purpose:   Begins or ends a drain: processes in its scope take no new work.
guarantee: Beginning a drain again keeps the time of the first begin. The record of who has done it is written in the
           same step.
args:      scope on kept record unchanged
           scope = fleet, host:<name> or process:<host>/<slot>; on = 1 or 0; record = packed, see record_act.lua, or
           '' for none; unchanged = the record if this changes nothing
reply:     {whether anything has changed, rows {scope, since ms}: all drains in force}
errors:    none
full:      it stores a short name or deletes one, with a capped record
--]]
local drains = require 'drains'
local fleet_events = require 'fleet_events'

return function(run, scope, on, kept, record, unchanged)
  local changed = drains.set(run, scope, on == '1')
  if record ~= '' then fleet_events.add(run, kept, unpack(cmsgpack.unpack(changed and record or unchanged))) end
  return cmsgpack.pack({changed, drains.rows(run)})
end
