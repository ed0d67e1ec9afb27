--[[
purpose:   Has the first call of each queue search again, after what kept all of them has ended.
guarantee: Bounded: at most 100 queues a call. The calls behind the first one follow when it gets something.
args:      after
           after = how many queues were woken before
reply:     how many there are so far, as an integer; 0: no more
errors:    none
--]]
local waiters = require 'waiters'

local WOKEN_MAX = 100

return function(run, after)
  local queues = redis.call('ZRANGE', run.keys.waiting, after, after + WOKEN_MAX - 1)
  for _, queue in ipairs(queues) do waiters.wake(run, queue) end
  return #queues == WOKEN_MAX and after + WOKEN_MAX or 0
end
