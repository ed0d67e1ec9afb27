--[[
purpose:   Gives a webhook a new secret.
guarantee: Nothing is written if another rotation came in between. The secrets are sealed before they come here.
args:      run.events_max name project was sealed earlier
           was = the sealed secret that the new one follows, '' for that of the settings; earlier = sealed secrets that
           go on signing for a while
reply:     1, or 0 if there is another one now
errors:    none
--]]
local webhooks = require 'webhooks'

return function(run, name, project, was, sealed, earlier)
  webhooks.begin(run, name, project)
  if (redis.call('HGET', webhooks.key(run, name), 'k') or '') ~= was then return 0 end
  webhooks.write(run, name, 'k', sealed, 'kp', earlier)
  webhooks.tell(run, 'webhook.rotated', name)
  return 1
end
