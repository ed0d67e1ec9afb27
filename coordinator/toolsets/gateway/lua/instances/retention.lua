-- Until when instances are kept that have ended, or are sessions: gate_expiry has them by that.
-- owns: gate_expiry
local clock = require 'clock'

local retention = {}

-- Keeps an instance for some ms from now.
function retention.keep(run, id, milliseconds)
  redis.call('ZADD', run.keys.gate_expiry, clock.whole(run.now + milliseconds), id)
end

function retention.forget(run, id)
  redis.call('ZREM', run.keys.gate_expiry, id)
end

return retention
