--[[
purpose:   Has the first call of each of some queues search again, after what kept all of them has ended.
guarantee: The calls behind the first one follow when it gets something. A queue that is gone is passed over.
args:      queues...
reply:     none
errors:    none
--]]
local waiters = require 'waiters'

return function(run, queues)
  for _, queue in ipairs(queues) do waiters.wake(run, queue) end
end
