-- How many items a selector would match if they were not held back. Counted only for callers that got nothing, and over
-- at most LOOKED_MAX items, those that are held back until a time, the first to be offered, or of each role and the
-- scopes of the selector the best: agents that find nothing ask often, and need to know whether it is worth asking, not
-- the exact number of a long list.
local budgets = require 'budgets'
local candidates = require 'candidates'
local classes = require 'classes'
local fairness = require 'fairness'
local held_back = require 'held_back'
local items = require 'items'
local requirements = require 'requirements'
local selectors = require 'selectors'

local ABANDONED, APART, READY, STATES = classes.ABANDONED, classes.APART, classes.READY, classes.STATES
local QUEUE, REVIEW, WAITING, WORK = classes.QUEUE, classes.REVIEW, classes.WAITING, classes.WORK

local held_counts = {}

local LOOKED_MAX = 50

-- The item as it will be when it is held back no longer; nil if it will not be available then either.
local function as_offered(item)
  if held_back.is_template(item) or classes.is_held(item) or item.nb or item.st then return nil end
  local offered = setmetatable({nt = false, bx = false}, {__index = item})
  offered.class = classes.unclaimed_class(offered, item.role)
  return offered
end

-- Items of a class that may match a selector, the best LOOKED_MAX, as an iterator.
local function best(run, selector, class)
  local next_candidate, looked, last = candidates.merged(run, selector, class, nil, LOOKED_MAX), 0, nil
  return function()
    while looked < LOOKED_MAX do
      local _, id = next_candidate()
      looked = looked + 1
      if not id then return nil end
      if id ~= last then -- one with two of the tags comes twice in a row
        last = id
        return id
      end
    end
  end
end

-- Ids of items that are held back until a time. If there are many, of which the selector may want few, also those that
-- it leads to.
local function ids_held_back(run, selector)
  local list, seen = redis.call('ZRANGE', run.keys.retries, 0, LOOKED_MAX - 1), {}
  if #list < LOOKED_MAX or next(selector) == nil then return list end
  for _, id in ipairs(list) do seen[id] = true end
  for _, role in ipairs(selector.role and {selector.role} or {QUEUE, WORK, REVIEW}) do
    for id in best(run, selector, role * STATES + WAITING) do
      if not seen[id] then list[#list + 1] = id end
    end
  end
  return list
end

-- Of items that an agent would be offered but for their notBefore, or else but for their back-off.
local function until_times(run, selector, agent, by_not_before)
  local count, scope = 0, selector.parent or selector.ancestor
  if run.nothing_else then return count end
  for _, id in ipairs(ids_held_back(run, selector)) do
    local item = items.load(run, id)
    local offered = item.nt and not item.bx and as_offered(item)
    local suits = offered and selectors.matches(run, offered, selector)
    suits = suits and (held_back.not_before(item) ~= nil) == by_not_before
    if suits and not selectors.is_shielded(run, offered, agent, scope) then count = count + 1 end
  end
  return count
end

local function until_not_before(run, selector, agent)
  return until_times(run, selector, agent, true)
end

local function until_backoff(run, selector, agent)
  return until_times(run, selector, agent, false)
end

-- Whether an item would be offered but for a spent budget, its own or that of one above it.
local function lacks_budget_only(run, item, selector, agent)
  local offered = item and (item.bx and not item.nt and as_offered(item) or not item.bx and item)
  if not (offered and classes.is_ready_class(offered.class)) or not budgets.spent_at(run, item.id) then return false end
  local holder = selectors.holder_above(run, item, selector.parent or selector.ancestor)
  return selectors.matches(run, offered, selector) and (holder == nil or holder == agent)
end

-- Of items that a spent budget keeps from everybody.
local function by_budget(run, selector, agent)
  local count = 0
  if not budgets.any_spent(run) then return count end
  for _, role in ipairs(selector.role and {selector.role} or {QUEUE, WORK, REVIEW}) do
    for _, state in ipairs({READY, ABANDONED, WAITING, APART}) do
      for id in best(run, selector, role * STATES + state) do
        if lacks_budget_only(run, items.load(run, id), selector, agent) then count = count + 1 end
      end
    end
  end
  return count
end

-- Whether an item suits a selector in all but the capabilities.
local function lacks_capabilities_only(run, item, selector, agent)
  if not item or not item.rq or requirements.is_met(item.rq, selector.capabilities) then return false end
  local able = setmetatable({capabilities = item.rq}, {__index = selector})
  if not selectors.matches(run, item, able) then return false end
  return not selectors.is_shielded(run, item, agent, selector.parent or selector.ancestor)
end

-- Of available items that require capabilities which the agent does not have.
local function by_requirements(run, selector, agent)
  local count = 0
  if redis.call('EXISTS', run.keys.requirements) == 0 then return count end
  for _, role in ipairs(selector.role and {selector.role} or {QUEUE, WORK, REVIEW}) do
    for id in best(run, selector, role * STATES + APART) do
      if lacks_capabilities_only(run, items.load(run, id), selector, agent) then count = count + 1 end
    end
  end
  return count
end

-- Of available items whose resources are busy, for an agent.
local function by_resources(run, selector, agent)
  local count, scope = 0, selector.parent or selector.ancestor
  if redis.call('EXISTS', run.keys.demands) == 0 then return count end
  for _, role in ipairs(selector.role and {selector.role} or {QUEUE, WORK, REVIEW}) do
    for _, class in ipairs({role * STATES + READY, role * STATES + ABANDONED, role * STATES + APART}) do
      for id in best(run, selector, class) do
        local item = items.load(run, id)
        local suits = item and item.rs and selectors.matches(run, item, selector)
        local busy = suits and fairness.busy_node(run, item, item.rs, agent)
        if busy and not selectors.is_shielded(run, item, agent, scope) then count = count + 1 end
      end
    end
  end
  return count
end

-- How many matches are held back, by why they are: function(run, selector, agent).
local COUNTED = {
  resources = by_resources, budget = by_budget, capabilities = by_requirements, not_before = until_not_before,
  backoff = until_backoff,
}

-- How many matches are held back, by why they are; false: none.
function held_counts.of(run, selector, agent)
  local counts = {}
  for why, count in pairs(COUNTED) do
    local found = count(run, selector, agent)
    if found > 0 then counts[why] = found end
  end
  return next(counts) and counts or false
end

-- The claim of a caller who got nothing, in the form of replies; `retry_ms` = when to ask again. It tells what is held
-- back.
function held_counts.no_match(run, selector, agent, retry_ms)
  return {'no_match', '', retry_ms, 0, 0, -1, false, false, held_counts.of(run, selector, agent)}
end

return held_counts
