--[[
purpose:   Makes a reply that was handed over (requests.lua) final, because a repeated call gets it.
guarantee: The effect is not taken back any more, or (reply 0) it was taken back before.
args:      name
reply:     1: the record is there, else 0
errors:    none
full:      it changes one letter
--]]
local requests = require 'requests'

return function(run, name)
  if redis.call('EXISTS', run.keys.request .. name) == 0 then return 0 end
  requests.finish(run, name)
  return 1
end
