-- @include index
-- What a selector asks of an item. A selector is a map: role, parent ('' any), tags (any of them; empty =
-- any), priority (-1 any), type ('' any), complexity (0 any, else at most), created_from, created_to,
-- changed_from, changed_to (ms, 0 open), ancestor ('' any), order ('priority', 'oldest', 'newest').

local function has_any_tag(it, tags)
  if #tags == 0 then return true end
  for tag in string.gmatch(it.g or '', '[^,%s]+') do
    for _, wanted in ipairs(tags) do
      if tag == wanted then return true end
    end
  end
  return false
end

local function within(value, from, to)
  return (from == 0 or value >= from) and (to == 0 or value <= to)
end

local function below(it, ancestor)
  local above = it.pa
  while above do
    if above == ancestor then return true end
    above = redis.call('HGET', K_ITEM .. above, 'pa')
  end
  return false
end

local function matches(it, sel)
  return it.role == sel.role
    and (sel.parent == '' or it.pa == sel.parent)
    and (sel.type == '' or it.y == sel.type)
    and (sel.priority < 0 or tonumber(it.p) == sel.priority)
    and (sel.complexity == 0 or (it.c and tonumber(it.c) <= sel.complexity))
    and has_any_tag(it, sel.tags)
    and within(tonumber(it.ca), sel.created_from, sel.created_to)
    and within(tonumber(it.ra or it.ca), sel.changed_from, sel.changed_to)
    and (sel.ancestor == '' or below(it, sel.ancestor))
end

-- Ancestor protection: nobody is given an item below one that somebody else holds. One answer per parent,
-- to be forgotten (`keepers = {}`) when claims have changed.
local keepers = {}

-- The agent that holds something above, nil when nobody does, false when several do.
local function keeper_above(it, now)
  local parent = it.pa
  if not parent then return nil end
  if not keepers[parent] then
    local f = redis.call('HMGET', K_ITEM .. parent, 'cb', 'cx', 'pa')
    local keeper = keeper_above({pa = f[3]}, now)
    if f[1] and tonumber(f[2]) > now then keeper = (keeper == nil or keeper == f[1]) and f[1] end
    keepers[parent] = {keeper}
  end
  return keepers[parent][1]
end

local function shielded(it, agent, now)
  local keeper = keeper_above(it, now)
  return keeper ~= nil and keeper ~= agent
end
