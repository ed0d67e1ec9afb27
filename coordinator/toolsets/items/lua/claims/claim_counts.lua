--[[
purpose:   Counts the live claims, those on terminal items, too, and the expired ones still on their items.
guarantee: O(log n), exact at the server's current time; writes nothing.
args:      none
reply:     {live, expired}
errors:    none
--]]
local claim_ends = require 'claim_ends'
local read = require 'read'

return function(run)
  return read(run, function()
    local unseen = redis.call('ZCOUNT', run.keys.leases, '-inf', run.now)
    local lapsed = tonumber(redis.call('HGET', run.keys.lapsed, '*') or 0)
    return {claim_ends.count(run, run.now) + claim_ends.count_finished(run, run.now), unseen + lapsed}
  end)
end
