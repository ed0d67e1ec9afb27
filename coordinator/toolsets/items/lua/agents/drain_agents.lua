--[[
purpose:   Begins or ends a drain of agents.
guarantee: From the step that begins it on, no claim of a drained agent is placed or parked anew. Beginning a drain
           again keeps the time of the first begin. drain_waiters.lua ends the claims that are parked already.
args:      run.events_max name on
           on = 1 or 0
reply:     {rows {name, since ms} of all drains, whether anything has changed, queues of parked claims}
errors:    TOO_MANY
owns:      agent_drains
--]]
local agent_drains = require 'agent_drains'
local clock = require 'clock'
local events = require 'events'

local DRAINS_MAX = 1000

local function begin(run, name)
  local key = run.keys.agent_drains
  if redis.call('HEXISTS', key, name) == 1 then return false end
  if redis.call('HLEN', key) > DRAINS_MAX then return redis.error_reply('FLEET TOO_MANY ' .. DRAINS_MAX) end
  redis.call('HSET', key, name, clock.whole(run.now), agent_drains.BEGUN, clock.whole(run.now))
  events.emit(run, 'agent_drain', name)
  return true
end

local function finish(run, name)
  local key = run.keys.agent_drains
  if redis.call('HDEL', key, name) == 0 then return false end
  if redis.call('HLEN', key) == 1 then redis.call('DEL', key) end
  events.emit(run, 'agent_undrain', name)
  return true
end

return function(run, name, on)
  local changed = (on == '1' and begin or finish)(run, name)
  if type(changed) == 'table' then return changed end
  local waiting = on == '1' and redis.call('ZRANGE', run.keys.waiting, 0, -1) or {}
  return cmsgpack.pack({agent_drains.rows(run), changed, waiting})
end
