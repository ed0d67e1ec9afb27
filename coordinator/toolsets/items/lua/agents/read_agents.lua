--[[
purpose:   Lists agents that claimed, renewed or waited in the last day, last seen first, with what they do now.
guarantee: A consistent snapshot of a page. States follow from claims and parked calls, not from what was recorded.
args:      names offset limit
           names = packed list of agents, '' for a page of all
reply:     Agents (store/agents/presence.py)
errors:    none
--]]
local agent_drains = require 'agent_drains'
local agent_rows = require 'agent_rows'
local claim_ends = require 'claim_ends'
local read = require 'read'
local waiters = require 'waiters'

return function(run, names, offset, limit)
  return read(run, function()
    local seen = run.keys.agent_seen
    local list = names ~= '' and cmsgpack.unpack(names) or redis.call('ZREVRANGE', seen, offset, offset + limit - 1)
    local live = claim_ends.count(run, run.now)
    local drains, rows = agent_drains.rows(run), agent_rows(run, list)
    return {run.now, redis.call('ZCARD', seen), live, waiters.count(run), drains, rows}
  end)
end
