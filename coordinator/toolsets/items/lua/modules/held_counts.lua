-- How many items a selector would match if they were not held back. Counted only for callers that got nothing, and over
-- at most LOOKED_MAX items, those whose back-off ends first: agents that find nothing ask often, and need to know
-- whether it is worth asking, not the exact number of a long list.
local classes = require 'classes'
local items = require 'items'
local selectors = require 'selectors'

local ABANDONED, READY, STATES = classes.ABANDONED, classes.READY, classes.STATES

local held_counts = {}

local LOOKED_MAX = 50

-- The item as it will be when its back-off is over; nil if it will not be available then either.
local function as_offered(item)
  if classes.is_held(item) or item.nb then return nil end
  local class = item.role * STATES + (classes.is_left(item, item.role) and ABANDONED or READY)
  return setmetatable({class = class}, {__index = item})
end

-- Of items in back-off, for an agent.
function held_counts.in_backoff(run, selector, agent)
  local count, scope = 0, selector.parent or selector.ancestor
  if run.nothing_else then return count end
  for _, id in ipairs(redis.call('ZRANGE', run.keys.retries, 0, LOOKED_MAX - 1)) do
    local offered = as_offered(items.load_partly(run, id))
    local suits = offered and selectors.matches(run, offered, selector)
    if suits and not selectors.is_shielded(run, offered, agent, scope) then count = count + 1 end
  end
  return count
end

return held_counts
