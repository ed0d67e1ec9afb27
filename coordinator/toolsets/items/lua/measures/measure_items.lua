--[[
purpose:   Counts a project's items, fetches and deletes the counts of ended claims, and keeps both as a sample.
guarantee: O(log n) at any number of items. Each ended claim is reported to one caller only, and is in one sample.
           Writes nothing if nothing has changed.
args:      run.terms resource_keys
           resource_keys = packed list: those to be measured, at most 50
reply:     _Reply (store/measures/items.py)
errors:    none
full:      it stores numbers: per project at most 1,800 rows of them
--]]
local agent_drains = require 'agent_drains'
local budget_shares = require 'budget_shares'
local due_times = require 'due_times'
local expiry = require 'expiry'
local holds = require 'holds'
local oldest_ready = require 'oldest_ready'
local resource_gauges = require 'resource_gauges'
local samples = require 'samples'
local sums = require 'sums'
local tallies = require 'tallies'

return function(run, resource_keys)
  local oldest, counts, ended = oldest_ready(run), tallies.of_project(run), holds.take(run)
  samples.note(run, counts, ended)
  local total, today = unpack(redis.call('HMGET', run.keys.usage, 'p', 'd' .. sums.today(run)))
  return cmsgpack.pack({
    run.now, counts, oldest, ended,
    redis.call('ZCARD', run.keys.backoffs), redis.call('ZCARD', run.keys.quarantined), expiry.next_end(run),
    redis.call('ZCARD', run.keys.agent_seen), agent_drains.count(run),
    redis.call('ZCOUNT', run.keys.postponed, run.now + 1, '+inf'), due_times.overdue(run),
    total or '', today or '', redis.call('SCARD', run.keys.spent_budgets),
    resource_gauges(run, cmsgpack.unpack(resource_keys)), budget_shares(run),
  })
end
