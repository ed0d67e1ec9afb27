-- Finds the waiting calls of agents that hold an item above or below just freed items, because the items below those
-- may be available only to these agents, and of agents to whom something is assigned. In a call: how many parked calls
-- it has read.
-- owns: none
local agents = require 'agents'
local apart = require 'apart'
local queues = require 'queues'
local requirements = require 'requirements'

local holders = {}

local LOOKS_MAX = 256 -- parked calls read by one call

-- Whether something that is ready is assigned to an agent.
local function has_own(run, agent)
  for _, set in ipairs(requirements.own_sets(agent)) do
    if redis.call('EXISTS', run.keys.ranked .. apart.scope(set, '*')) == 1 then return true end
  end
end

-- The next waiter of a queue, from the n-th on, whose agent holds something above or below freed items, or is assigned
-- something; nil if there is none, or it has read LOOKS_MAX. `around` = by id, true for freed items and false for their
-- ancestors; nil: there is nothing new for other agents.
function holders.next(run, queue, n, around)
  if not around or not next(around) and not requirements.are_assigned(run) then return nil end
  while (run[holders] or 0) < LOOKS_MAX do
    local waiter = queues.at(run, queue, n)
    if waiter == nil then return nil end
    n, run[holders] = n + 1, (run[holders] or 0) + 1
    local id = waiter and agents.item_of(run, waiter.agent)
    local near = waiter and has_own(run, waiter.agent) or id and around[id] ~= nil
    while id and not near do
      id = redis.call('HGET', run.keys.item .. id, 'pa')
      near = id and around[id]
    end
    if near then return waiter end
  end
end

-- Adds a freed item to `around` for `holders.next`.
function holders.note_freed(run, id, around)
  around[id] = true
  local above = redis.call('HGET', run.keys.item .. id, 'pa')
  while above do
    around[above] = around[above] or false
    above = redis.call('HGET', run.keys.item .. above, 'pa')
  end
end

return holders
