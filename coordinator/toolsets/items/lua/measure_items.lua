--[[
purpose:   Counts a project's items, fetches and deletes the counts of ended claims, and keeps both as a sample.
guarantee: O(log n) at any number of items. Each ended claim is reported to one caller only, and is in one sample.
           Writes nothing if nothing has changed.
args:      none
reply:     {now, counts by role code, creation of the oldest item that is ready in the queue or 0, ended claims as
           fields and numbers in turn: see modules/holds.lua; numbers of items in back-off and in quarantine, when the
           next claim or back-off ends (ms, 0: there is none), numbers of agents and of their drains}
errors:    none
writes:    holds samples
full:      it stores numbers: per project at most 1,800 rows of them
--]]
local agent_drains = require 'agent_drains'
local classes = require 'classes'
local expiry = require 'expiry'
local index = require 'index'
local samples = require 'samples'
local tallies = require 'tallies'

local APART, CLASS_SIZE, GROUP_SIZE, STATES = classes.APART, classes.CLASS_SIZE, classes.GROUP_SIZE, classes.STATES
local QUEUE, READY = classes.QUEUE, classes.READY

-- When the oldest of a scope's items of a class was created (ms), or huge. They are ordered by priority and
-- complexity first: the first of each such group is its oldest.
local function oldest_ready(run, scope, class)
  local key, oldest = run.keys.ranked .. scope, math.huge
  local first = class * CLASS_SIZE
  local last = first + CLASS_SIZE - 1
  while first <= last do
    local score = tonumber(redis.call('ZRANGEBYSCORE', key, first, last, 'WITHSCORES', 'LIMIT', 0, 1)[2])
    if not score then break end
    oldest = math.min(oldest, classes.created_of(score))
    first = (math.floor(score / GROUP_SIZE) + 1) * GROUP_SIZE
  end
  return oldest
end

local function take_ended_claims(run)
  local ended = redis.call('HGETALL', run.keys.holds)
  if ended[1] then redis.call('DEL', run.keys.holds) end
  return ended
end

return function(run)
  local oldest, counts, ended = math.huge, tallies.of_project(run), take_ended_claims(run)
  samples.note(run, counts, ended)
  for _, scope in ipairs(index.EVERYTHING) do
    for _, class in ipairs({QUEUE * STATES + READY, APART + QUEUE}) do
      oldest = math.min(oldest, oldest_ready(run, scope, class))
    end
  end
  return cmsgpack.pack({
    run.now, counts, oldest < math.huge and oldest or 0, ended,
    redis.call('ZCARD', run.keys.retries), redis.call('ZCARD', run.keys.quarantined), expiry.next_end(run),
    redis.call('ZCARD', run.keys.agent_seen), agent_drains.count(run),
  })
end
