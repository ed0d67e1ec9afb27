--[[
purpose:   Pauses the claims of a project, or lets them go on.
guarantee: From the step that pauses them on, none begins, whatever makes an item ready. Pausing again keeps the first
           pause. Calls that wait stay parked; wake_parked.lua has them search again afterwards, also if claims were
           not paused any more: whoever resumed them may have died before.
args:      run.events_max on who why
           on = 1 or 0
reply:     {whether anything has changed, the pause {since ms, who, why}, false for none, queues of parked claims}
errors:    none
owns:      paused
--]]
local events = require 'events'
local pauses = require 'pauses'

return function(run, on, who, why)
  local key, before = run.keys.paused, pauses.of_claims(run)
  if on == '1' and not before then
    local pause = {run.now, who, why}
    redis.call('HSET', key, pauses.CLAIMS, cmsgpack.pack(pause))
    events.emit(run, 'project_pause', pauses.CLAIMS)
    return cmsgpack.pack({true, pause, {}})
  end
  local changed = on == '0' and redis.call('HDEL', key, pauses.CLAIMS) == 1
  if changed then events.emit(run, 'project_resume', pauses.CLAIMS) end
  return cmsgpack.pack({changed, before or false, redis.call('ZRANGE', run.keys.waiting, 0, -1)})
end
