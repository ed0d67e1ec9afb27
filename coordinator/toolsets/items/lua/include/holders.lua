-- @include queues
-- Finds the waiting calls of agents that hold an item above or below just freed items, because the items below those
-- may be within reach of these agents only.

local looks_left = PASSED_MAX -- waiters that one run looks at for what they hold

-- The next of a queue, from the n-th on, that holds something above or below freed items: `around` = by id, true for
-- these and false for what is above them.
local function next_holder(queue, n, around, now)
  while looks_left > 0 do
    local waiter = waiter_at(queue, n, now)
    if waiter == nil then return nil end
    n, looks_left = n + 1, looks_left - 1
    local id = waiter and redis.call('HGET', K_AGENTS, waiter.agent)
    local near = id and around[id] ~= nil
    while id and not near do
      id = redis.call('HGET', K_ITEM .. id, 'pa')
      near = id and around[id]
    end
    if near then return waiter end
  end
end

-- Notes a freed item in `around` for `next_holder`.
local function note_freed(id, around)
  around[id] = true
  local above = redis.call('HGET', K_ITEM .. id, 'pa')
  while above do
    around[above] = around[above] or false
    above = redis.call('HGET', K_ITEM .. above, 'pa')
  end
end
