--[[
purpose:   Lists agents that claimed, renewed or waited in the last day, last seen first, with what they do now.
guarantee: A consistent snapshot of a page. States follow from claims and parked calls, not from what was recorded.
args:      names offset limit
           names = packed list of agents, '' for a page of all
reply:     {now, agents, live claims, parked calls, drains {name, since}, rows}; row = {agent, last seen, what it is,
           capabilities, item that it holds or '', since when, until when, waiting since or 0, selector or false, name
           under which it is drained or '', attempts}; times in ms; what it is and capabilities as in modules/agents.lua
errors:    none
writes:    none
--]]
local agent_drains = require 'agent_drains'
local agents = require 'agents'
local claims = require 'claims'
local items = require 'items'
local read = require 'read'
local waiters = require 'waiters'

-- The live claim of an agent as {item, since, until}; else '' and zeros.
local function held_by(run, agent, known)
  local item = known.item and items.load(run, known.item)
  if not (item and item.holder == agent and claims.is_live(run, item)) then return '', 0, 0 end
  return item.id, item.first_claimed_at, item.expires
end

local function row_of(run, agent)
  local known = agents.load(run, agent)
  local item, since, ends = held_by(run, agent, known)
  local selector = known.request ~= '' and waiters.selector_of(run, known.request, agent)
  return {
    agent, known.seen or 0, known.known_as, known.capabilities, item, since, ends,
    selector and tonumber(known.since) or 0, selector or false, agent_drains.of(run, agent) or '',
    tonumber(redis.call('HGET', run.keys.agent_attempts, agent) or 0),
  }
end

return function(run, names, offset, limit)
  return read(run, function()
    local seen, rows = run.keys.agent_seen, {}
    local list = names ~= '' and cmsgpack.unpack(names) or redis.call('ZREVRANGE', seen, offset, offset + limit - 1)
    for n, agent in ipairs(list) do rows[n] = row_of(run, agent) end
    local live = redis.call('ZCOUNT', run.keys.leases, run.now + 1, '+inf')
    return {run.now, redis.call('ZCARD', seen), live, waiters.count(run), agent_drains.rows(run), rows}
  end)
end
