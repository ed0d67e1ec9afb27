-- Finds the waiting calls of agents that hold an item above or below just freed items, because the items below those
-- may be available only to these agents.
local agents = require 'agents'
local queues = require 'queues'

local holders = {}

-- The next waiter of a queue, from the n-th on, whose agent holds something above or below freed items; nil if there
-- is none, or run.looks_left is used up. `around` = by id, true for freed items and false for their ancestors.
function holders.next(run, queue, n, around)
  while run.looks_left > 0 do
    local waiter = queues.at(run, queue, n)
    if waiter == nil then return nil end
    n, run.looks_left = n + 1, run.looks_left - 1
    local id = waiter and agents.item_of(run, waiter.agent)
    local near = id and around[id] ~= nil
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
