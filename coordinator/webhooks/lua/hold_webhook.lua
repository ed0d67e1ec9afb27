--[[
purpose:   Renews the right to deliver to webhooks, and begins the record of one if it is new.
guarantee: Only the process that leads may deliver. A record for another project begins anew.
args:      what process milliseconds name project
           what = the leader lease; milliseconds = how long it lasts
reply:     _Held (records.py)
errors:    none
full:      a record is small, and this keeps it alive
--]]
local leader_leases = require 'leader_leases'
local webhooks = require 'webhooks'

return function(run, what, process, milliseconds, name, project)
  local leads = leader_leases.take(run, what, process, milliseconds)
  if leads then
    webhooks.begin(run, name, project)
    webhooks.write(run, name, 'p', project)
  end
  return cmsgpack.pack({leads, webhooks.record(run, name)})
end
