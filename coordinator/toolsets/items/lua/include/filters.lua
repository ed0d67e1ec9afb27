-- @include index
-- Selectors: which items a caller wants. A selector is a map, each field optional: role (default: what is on offer, that
-- is ready items in queue and abandoned ones, the latter first where priorities are equal), parent, tags
-- (any of them), priority, type, complexity (at most), created_from, created_to, changed_from, changed_to (ms),
-- ancestor, order ('priority' by default, 'oldest', 'newest').

local function has_any_tag(item, tags)
  for tag in each_tag(item.g or '') do
    for _, wanted in ipairs(tags) do
      if tag == wanted then return true end
    end
  end
  return false
end

local function within(value, from, to)
  return (not from or value >= from) and (not to or value <= to)
end

-- At any depth.
local function is_below(item, ancestor)
  local above = item.pa
  while above do
    if above == ancestor then return true end
    above = redis.call('HGET', K_ITEM .. above, 'pa')
  end
  return false
end

-- Whether everything but the role suits.
local function matches_all(item, selector)
  return (not selector.parent or item.pa == selector.parent)
    and (not selector.type or item.y == selector.type)
    and (not selector.priority or priority_of(item.score) == selector.priority)
    and (not selector.complexity or (complexity_of(item.score) or NO_COMPLEXITY) <= selector.complexity)
    and (not selector.tags or has_any_tag(item, selector.tags))
    and within(created_of(item.score), selector.created_from, selector.created_to)
    and within(tonumber(item.ra) or created_of(item.score), selector.changed_from, selector.changed_to)
    and (not selector.ancestor or is_below(item, selector.ancestor))
end

-- Whether an item suits a selector. The empty selector is checked first, because it is cheap.
local function matches(item, selector)
  local right_role = item.role == (selector.role or QUEUE) or not selector.role and item.class % STATES == ABANDONED
  return right_role and (next(selector) == nil or matches_all(item, selector))
end

local function orders_by_rank(selector)
  return not selector.order or selector.order == 'priority'
end

-- Between which ages (ms since RANK_EPOCH) items were created that may suit; nil where any may.
local function age_range(selector)
  if not (selector.created_from or selector.created_to) then return nil end
  local low = math.max((selector.created_from or RANK_EPOCH) - RANK_EPOCH, 0)
  return low, math.min((selector.created_to or math.huge) - RANK_EPOCH, GROUP_SIZE - 1)
end

-- Ancestor protection: nobody gets an item below one that somebody else holds. Who names a scope (selector.parent or
-- selector.ancestor) means what is in it, so claims at or above it do not count. The answers {holder} are cached by scope and parent; the cache has to be
-- dropped (`known_holders = nil`) when claims have changed.
local known_holders

-- The agent that holds something above the item and below `scope` (nil: anything above), nil when nobody does, false
-- when several do.
local function holder_above(item, now, scope)
  local parent = item.pa
  if not parent or parent == scope then return nil end
  local place = scope and scope .. parent or parent
  known_holders = known_holders or {}
  if not known_holders[place] then
    local claim, grandparent = unpack(redis.call('HMGET', K_ITEM .. parent, 'h', 'pa'))
    local holder = holder_above({pa = grandparent}, now, scope)
    local agent = live_holder(claim, now)
    if agent then holder = (holder == nil or holder == agent) and agent end
    known_holders[place] = {holder}
  end
  return known_holders[place][1]
end

-- Whether that keeps the item from the agent.
local function is_shielded(item, agent, now, scope)
  local holder = holder_above(item, now, scope)
  return holder ~= nil and holder ~= agent
end
