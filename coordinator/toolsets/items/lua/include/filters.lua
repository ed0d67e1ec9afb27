-- @include index
-- What a selector asks of an item. A selector is a map of what it does ask: role (queue unless given), parent,
-- tags (any of them), priority, type, complexity (at most), created_from, created_to, changed_from,
-- changed_to (ms), ancestor, order ('priority' unless given, 'oldest', 'newest').

local function has_any_tag(it, tags)
  for tag in each_tag(it.g or '') do
    for _, wanted in ipairs(tags) do
      if tag == wanted then return true end
    end
  end
  return false
end

local function within(value, from, to)
  return (not from or value >= from) and (not to or value <= to)
end

local function below(it, ancestor)
  local above = it.pa
  while above do
    if above == ancestor then return true end
    above = redis.call('HGET', K_ITEM .. above, 'pa')
  end
  return false
end

local function matches_all(it, sel)
  return (not sel.parent or it.pa == sel.parent)
    and (not sel.type or it.y == sel.type)
    and (not sel.priority or priority_of(it.w) == sel.priority)
    and (not sel.complexity or (complexity_of(it.w) or NO_COMPLEXITY) <= sel.complexity)
    and (not sel.tags or has_any_tag(it, sel.tags))
    and within(created_of(it.w), sel.created_from, sel.created_to)
    and within(tonumber(it.ra) or created_of(it.w), sel.changed_from, sel.changed_to)
    and (not sel.ancestor or below(it, sel.ancestor))
end

local function matches(it, sel)
  return it.role == (sel.role or QUEUE) and (next(sel) == nil or matches_all(it, sel))
end

local function by_rank(sel)
  return not sel.order or sel.order == 'priority'
end

-- Between which ages (ms since RANK_EPOCH) items were created that may suit; nil where any may.
local function ages(sel)
  if not (sel.created_from or sel.created_to) then return nil end
  local low = math.max((sel.created_from or RANK_EPOCH) - RANK_EPOCH, 0)
  return low, math.min((sel.created_to or math.huge) - RANK_EPOCH, GROUP - 1)
end

-- Ancestor protection: nobody is given an item below one that somebody else holds. One answer per parent,
-- to be forgotten (`keepers = nil`) when claims have changed.
local keepers

-- The agent that holds something above, nil when nobody does, false when several do.
local function keeper_above(it, now)
  local parent = it.pa
  if not parent then return nil end
  keepers = keepers or {}
  if not keepers[parent] then
    local f = redis.call('HMGET', K_ITEM .. parent, 'h', 'pa')
    local keeper = keeper_above({pa = f[2]}, now)
    if f[1] and #f[1] > 4 and struct.unpack('>I6', f[1], 5) > now then
      local holder = string.sub(f[1], AGENT_AT)
      keeper = (keeper == nil or keeper == holder) and holder
    end
    keepers[parent] = {keeper}
  end
  return keepers[parent][1]
end

local function shielded(it, agent, now)
  local keeper = keeper_above(it, now)
  return keeper ~= nil and keeper ~= agent
end
