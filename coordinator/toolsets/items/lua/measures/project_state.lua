--[[
purpose:   Counts what a project has, and says when it last changed, for people who watch it.
guarantee: A consistent snapshot, from indexes: O(log n) at any number of items.
args:      run.terms
reply:     ProjectState (store/measures/project_state.py)
errors:    none
--]]
local abandoned = require 'abandoned'
local agent_drains = require 'agent_drains'
local claim_ends = require 'claim_ends'
local classes = require 'classes'
local due_times = require 'due_times'
local index = require 'index'
local oldest_ready = require 'oldest_ready'
local read = require 'read'
local tallies = require 'tallies'
local waiters = require 'waiters'

local APART, CLASS_SIZE, STATES = classes.APART, classes.CLASS_SIZE, classes.STATES
local QUEUE, READY, REVIEW, WAITING = classes.QUEUE, classes.READY, classes.REVIEW, classes.WAITING

local EXPIRING_MS = 60000

-- How many items are in a class.
local function count(run, class)
  local first, found = class * CLASS_SIZE, 0
  for _, scope in ipairs(index.EVERYTHING) do
    found = found + redis.call('ZCOUNT', run.keys.ranked .. scope, first, first + CLASS_SIZE - 1)
  end
  return found
end

local function count_waiting(run)
  local found = 0
  for role = QUEUE, REVIEW do found = found + count(run, role * STATES + WAITING) end
  return found
end

local function last_change(run)
  local entry = redis.call('XREVRANGE', run.keys.events, '+', '-', 'COUNT', 1)[1]
  return entry and tonumber(string.match(entry[1], '^%d+')) or 0
end

return function(run)
  return read(run, function()
    local now = run.now
    local oldest, id = oldest_ready(run)
    return {
      now, tallies.of_project(run), count(run, QUEUE * STATES + READY) + count(run, QUEUE * STATES + APART), id, oldest,
      count_waiting(run), claim_ends.count(run, now),
      claim_ends.count(run, now, now + EXPIRING_MS),
      redis.call('ZCOUNT', run.keys.abandoned, 0, abandoned.WAITING_OFFSET - 1),
      redis.call('ZCARD', run.keys.quarantined),
      redis.call('ZCARD', run.keys.backoffs), redis.call('ZCARD', run.keys.agent_seen), waiters.count(run),
      tonumber(redis.call('ZREVRANGE', run.keys.agent_seen, 0, 0, 'WITHSCORES')[2] or 0), agent_drains.count(run),
      last_change(run), redis.call('ZCOUNT', run.keys.postponed, now + 1, '+inf'), due_times.overdue(run),
    }
  end)
end
