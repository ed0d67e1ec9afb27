--[[
purpose:   Counts the live claims, and the expired ones still on their items.
guarantee: O(log n), exact at the server's current time; writes nothing.
args:      none
reply:     {live, expired}
errors:    none
writes:    none
--]]
local read = require 'read'

return function(run)
  return read(run, function()
    local unseen = redis.call('ZCOUNT', run.keys.leases, '-inf', run.now)
    local lapsed = tonumber(redis.call('HGET', run.keys.lapsed, '*') or 0)
    return {redis.call('ZCOUNT', run.keys.leases, run.now + 1, '+inf'), unseen + lapsed}
  end)
end
