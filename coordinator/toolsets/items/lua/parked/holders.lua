-- Finds the waiting calls of agents that hold an item above or below just freed items, because the items below those
-- may be available only to these agents, and of agents to whom something is assigned. In a call: looks, how many parked
-- calls it has read; assigned, whether something is; by queue and set of an assignee, how many calls had that.
-- owns: none
local agents = require 'agents'
local apart = require 'apart'
local queues = require 'queues'
local requirements = require 'requirements'

local holders = {}

local LOOKS_MAX = 256 -- parked calls read by one call; where something is assigned `queues.PASSED_MAX`
local OWN_MAX = 4 -- calls of a queue for one set: the first ones may leave it

local function own_of(run)
  run[holders] = run[holders] or {looks = 0, assigned = requirements.are_assigned(run)}
  return run[holders]
end

-- Whether something that is ready is assigned to the agent of a call in a queue, and not many before have that, too.
function holders.has_own(run, queue, agent)
  local own = own_of(run)
  for _, set in ipairs(own.assigned and requirements.own_sets(agent) or {}) do
    local place = queue .. set
    own[place] = (own[place] or 0) + 1
    local first = own[place] <= OWN_MAX
    if first and redis.call('EXISTS', run.keys.ranked .. apart.scope(set, '*')) == 1 then return true end
  end
end

-- The next waiter of a queue, from the n-th on, whose agent holds something above or below freed items, or is assigned
-- something; nil if there is none, or it has read enough. `around` = by id, true for freed items and false for their
-- ancestors; nil: there is nothing new for other agents.
function holders.next(run, queue, n, around)
  if not around then return nil end
  local own, freed = own_of(run), next(around) ~= nil
  local most = own.assigned and queues.PASSED_MAX or freed and LOOKS_MAX or 0
  while own.looks < most do
    local waiter = queues.at(run, queue, n)
    if waiter == nil then return nil end
    n, own.looks = n + 1, own.looks + 1
    local id = freed and waiter and agents.item_of(run, waiter.agent)
    local near = waiter and holders.has_own(run, queue, waiter.agent) or id and around[id] ~= nil
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
