-- The drains in force: which processes take no new work.
-- owns: drains
local clock = require 'clock'

local drains = {}

-- Rows {scope, since ms}.
function drains.rows(run)
  local rows, flat = {}, redis.call('HGETALL', run.keys.drains)
  for n = 1, #flat, 2 do rows[#rows + 1] = {flat[n], tonumber(flat[n + 1])} end
  return rows
end

-- Begins the drain of a scope, or ends it. Returns whether that has changed anything.
function drains.set(run, scope, on)
  if on then return redis.call('HSETNX', run.keys.drains, scope, clock.whole(run.now)) == 1 end
  return redis.call('HDEL', run.keys.drains, scope) == 1
end

return drains
