-- Rows of agents in lists: Agent (store/agents/presence.py).
-- owns: none
local agent_drains = require 'agent_drains'
local agents = require 'agents'
local claims = require 'claims'
local classes = require 'classes'
local items = require 'items'
local waiters = require 'waiters'

local TERMINAL = classes.TERMINAL

-- The live claim of an agent on an item that is not terminal as {item, since, until}; else '' and zeros.
local function held_by(run, agent, known)
  local item = known.item and items.load(run, known.item)
  if not (item and item.holder == agent and claims.is_live(run, item)) or item.role == TERMINAL then return '', 0, 0 end
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

return function(run, list)
  local rows = {}
  for n, agent in ipairs(list) do rows[n] = row_of(run, agent) end
  return rows
end
