-- Selectors: which items a caller wants, and in which order. A selector is a map, each field optional: role (default:
-- offered items, that is ready ones in queue and abandoned ones, the latter first at equal priorities), parents ('any':
-- items with open children, too; children.lua), parent, tags (any of them), priority, type, complexity (at most),
-- created_from, created_to, changed_from, changed_to (ms), ancestor, other_than (an item that does not match), order
-- ('priority' by default, 'oldest', 'newest'), and what requirements.lua looks at: capabilities (of the agent, in
-- order, separated by commas). A position is an item's place in the selector's order of rank, independent of its class:
-- an item that moves to another class keeps it. With a role that is the score without the class. Without one, priority
-- comes first, then whether the item is abandoned, then the rest of the score.
-- In a call: by scope and parent, who holds what is above an item, as a list of one.
-- owns: none
local budgets = require 'budgets'
local classes = require 'classes'
local item_record = require 'item_record'
local tags_of = require 'tags_of'

local ABANDONED, READY, WAITING = classes.ABANDONED, classes.READY, classes.WAITING
local PARENT, PARENT_LEFT, STATES = classes.PARENT, classes.PARENT_LEFT, classes.STATES
local QUEUE, REVIEW, WORK = classes.QUEUE, classes.REVIEW, classes.WORK
local CLASS_SIZE, PRIORITY_SIZE, GROUP_SIZE = classes.CLASS_SIZE, classes.PRIORITY_SIZE, classes.GROUP_SIZE
local NO_COMPLEXITY, RANK_EPOCH = classes.NO_COMPLEXITY, classes.RANK_EPOCH

local selectors = {}

local function has_any_tag(item, tags)
  if item.g == tags[1] then return true end -- the usual case, for less
  for _, tag in ipairs(tags_of(item.g or '')) do
    for _, wanted in ipairs(tags) do
      if tag == wanted then return true end
    end
  end
  return false
end

local function within(value, from, to)
  return (not from or value >= from) and (not to or value <= to)
end

-- Whether the times of an item are within those of a selector.
local function is_timely(item, selector)
  local created = classes.created_of(item.score)
  return within(created, selector.created_from, selector.created_to)
    and within(item.role_changed_at or created, selector.changed_from, selector.changed_to)
end

-- Whether an item is below another one, at any depth.
function selectors.is_below(run, item, ancestor)
  local above = item.pa
  while above do
    if above == ancestor then return true end
    above = redis.call('HGET', run.keys.item .. above, 'pa')
  end
  return false
end

-- Whether an item matches a selector in all but the role.
local function matches_all(run, item, selector)
  return item.id ~= selector.other_than
    and (not selector.parent or item.pa == selector.parent)
    and (not selector.type or item.y == selector.type)
    and (not selector.priority or classes.priority_of(item.score) == selector.priority)
    and (not selector.complexity or (classes.complexity_of(item.score) or NO_COMPLEXITY) <= selector.complexity)
    and (not selector.tags or has_any_tag(item, selector.tags))
    and (not (selector.created_from or selector.created_to or selector.changed_from or selector.changed_to)
      or is_timely(item, selector))
    and (not selector.ancestor or selectors.is_below(run, item, selector.ancestor))
end

-- Whether an item matches a selector, whatever it requires. The empty selector is checked first, because it is cheap.
function selectors.matches(run, item, selector)
  local state = item.class % STATES
  if state > WAITING and not selector.parents then return false end -- it has open children
  local left = state == ABANDONED or state == PARENT_LEFT
  local right_role = item.role == (selector.role or QUEUE) or not selector.role and left
  return right_role and (next(selector) == nil or matches_all(run, item, selector))
end

-- The classes from which a selector takes unclaimed items; `some_abandoned` = whether there may be abandoned ones.
function selectors.claimable_classes(selector, some_abandoned)
  local role = selector.role or QUEUE
  local list = {role * STATES + READY}
  if some_abandoned and not selector.role then
    list[2], list[3] = WORK * STATES + ABANDONED, REVIEW * STATES + ABANDONED
  elseif some_abandoned and (role == WORK or role == REVIEW) then
    list[2] = role * STATES + ABANDONED
  end
  if not selector.parents then return list end
  if role == QUEUE or role == WORK then list[#list + 1] = role * STATES + PARENT end
  if role == WORK or not selector.role then list[#list + 1] = WORK * STATES + PARENT_LEFT end
  return list
end

-- Whether a selector asks for the order of rank, and not of age.
function selectors.orders_by_rank(selector)
  return not selector.order or selector.order == 'priority'
end

-- The place of an item among the candidates of its class (candidates.lua), from its score.
function selectors.place_of(selector, score)
  if selectors.orders_by_rank(selector) then return score end
  return selector.order == 'newest' and -(score % GROUP_SIZE) or score % GROUP_SIZE
end

-- The range of creation (ms since RANK_EPOCH) of items that may match; nil if any.
function selectors.age_range(selector)
  if not (selector.created_from or selector.created_to) then return nil end
  local low = math.max((selector.created_from or RANK_EPOCH) - RANK_EPOCH, 0)
  return low, math.min((selector.created_to or math.huge) - RANK_EPOCH, GROUP_SIZE - 1)
end

-- The agent that holds an ancestor of the item below `scope` (nil: any ancestor), nil if nobody does, false if several
-- do.
function selectors.holder_above(run, item, scope)
  local parent = item.pa
  if not parent or parent == scope then return nil end
  local place = scope and scope .. parent or parent
  local known = run[selectors] or {}
  run[selectors] = known
  if not known[place] then
    local record, grandparent = unpack(redis.call('HMGET', run.keys.item .. parent, 'w', 'pa'))
    local holder = selectors.holder_above(run, {pa = grandparent}, scope)
    local agent = item_record.live_holder(run, record)
    if agent then holder = (holder == nil or holder == agent) and agent end
    known[place] = {holder}
  end
  return known[place][1]
end

-- Forgets who holds what is above items, as claims have changed.
function selectors.forget_holders(run)
  run[selectors] = nil
end

-- Whether a spent budget of an ancestor keeps the item from every agent, or a claim on an ancestor below `scope` (nil:
-- any ancestor) from this one.
function selectors.is_shielded(run, item, agent, scope)
  if budgets.spent_at(run, item.pa) then return true end
  local holder = selectors.holder_above(run, item, scope)
  return holder ~= nil and holder ~= agent
end

-- The position of an item of a class, from its score.
function selectors.position_of(selector, class, score)
  local place = score % CLASS_SIZE
  if selector.role then return place end
  return place + math.floor(place / PRIORITY_SIZE) * PRIORITY_SIZE + (class < STATES and PRIORITY_SIZE or 0)
end

-- The lowest score in a class whose position is at or after `position`.
function selectors.score_at(selector, class, position)
  if selector.role then return class * CLASS_SIZE + position end
  local priority, rest = math.floor(position / (2 * PRIORITY_SIZE)), position % (2 * PRIORITY_SIZE)
  if class < STATES then
    rest = math.max(rest - PRIORITY_SIZE, 0)
  else
    rest = math.min(rest, PRIORITY_SIZE) -- offered items in queue come after all abandoned ones of a priority
  end
  return class * CLASS_SIZE + priority * PRIORITY_SIZE + rest
end

return selectors
