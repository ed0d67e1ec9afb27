--[[
purpose:   Pauses a webhook, or has it go on at once, whatever it has failed at.
guarantee: Its position stays, so nothing is left out.
args:      run.events_max name project status
           status = active or paused
reply:     WebhookRecord (records.py), as it was before
errors:    none
full:      a record is small, and operators must be able to stop deliveries
--]]
local webhooks = require 'webhooks'

return function(run, name, project, status)
  webhooks.begin(run, name, project)
  local before = webhooks.record(run, name)
  webhooks.write(run, name, 'st', status)
  if status == 'active' then webhooks.recovered(run, name) end
  webhooks.tell(run, status == 'active' and 'webhook.resumed' or 'webhook.paused', name)
  return cmsgpack.pack(before)
end
