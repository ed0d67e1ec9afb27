-- Why a caller got nothing: how many items its selector would match if nothing held them back, each counted under the
-- first that holds of it: quarantined, not_before, backoff, dependencies, open_children, budget, capabilities,
-- resources. Not counted is what is never offered, and what is below an item that another agent holds. Counted only at
-- the end of calls that got nothing, and of each class that may match over the LOOKED_MAX best: agents that find
-- nothing ask often, and need to know whether it is worth asking, not the exact number of a long list.
--   told  agent: what it was told last (packed {selector, counts}), for TOLD_MS
-- owns: told
local budgets = require 'budgets'
local candidates = require 'candidates'
local classes = require 'classes'
local held_back = require 'held_back'
local items = require 'items'
local requirements = require 'requirements'
local selectors = require 'selectors'

local ABANDONED, APART, READY, STATES = classes.ABANDONED, classes.APART, classes.READY, classes.STATES
local PARENT, PARENT_LEFT, WAITING = classes.PARENT, classes.PARENT_LEFT, classes.WAITING
local BLOCKED, QUEUE, REVIEW, WORK = classes.BLOCKED, classes.QUEUE, classes.REVIEW, classes.WORK

local held_counts = {}

local LOOKED_MAX = 50
local TOLD_MS = 1000

-- The item as it will be when nothing holds it back any more; nil if it will not be offered then either.
local function as_offered(item)
  if held_back.is_template(item) or item.st or classes.is_held(item) then return nil end
  local offered = setmetatable({nt = false, nb = false, bx = false}, {__index = item})
  if item.ch then offered.ch = '3' end
  if held_back.is_quarantined(item) then offered.role, offered.u = tonumber(item.pr or QUEUE), '2' end
  offered.class = classes.unclaimed_class(offered, offered.role)
  return offered
end

-- The first that holds an item back; nil: nothing does, or it is permanent. `missing` = what it requires that is not
-- there for the caller.
local function reason_of(run, item, selector, missing)
  if held_back.is_quarantined(item) then return 'quarantined' end
  if item.nt then
    local later = held_back.not_before(item) or tonumber(item.nv or 0) > run.now
    return later and 'not_before' or 'backoff'
  end
  if item.nb then return 'dependencies' end
  if not selector.parents and classes.waits_for_children(item, item.role) then
    return item.ch == '1' and 'open_children' or nil
  end
  if budgets.spent_at(run, item.id) then return 'budget' end
  return missing
end

-- Calls look(id) for the best LOOKED_MAX items of a class that may match a selector.
local function look_at_best(run, selector, class, look)
  local next_candidate = candidates.merged(run, selector, class, nil, LOOKED_MAX)
  for _ = 1, LOOKED_MAX do
    local _, id = next_candidate()
    if not id then return end
    look(id)
  end
end

-- The same for the first LOOKED_MAX of a key by time. Returns whether there may be more.
local function look_at_first(key, look)
  local list = redis.call('ZRANGE', key, 0, LOOKED_MAX - 1)
  for _, id in ipairs(list) do look(id) end
  return #list == LOOKED_MAX
end

-- How many matches are held back, by why they are; false: none.
function held_counts.of(run, selector, agent)
  local counts, seen, search = {}, {}, {selector = selector, agent = agent}
  local function look(id)
    local item = not seen[id] and items.load(run, id)
    seen[id] = true
    local offered = item and as_offered(item)
    local matches = offered and selectors.matches(run, offered, selector)
    local missing = matches and requirements.against(run, item, search)
    local why = matches and missing ~= false and reason_of(run, item, selector, missing)
    local holder = why and selectors.holder_above(run, item, selector.parent or selector.ancestor)
    if why and (holder == nil or holder == agent) then counts[why] = (counts[why] or 0) + 1 end
  end

  look_at_first(run.keys.retries, look)
  local more = look_at_first(run.keys.quarantined, look) and next(selector)
  if more then look_at_best(run, selector, BLOCKED * STATES + WAITING, look) end
  local states = {WAITING, PARENT, PARENT_LEFT}
  if budgets.any_spent(run) or requirements.any(run) then
    states = {WAITING, PARENT, PARENT_LEFT, READY, ABANDONED, APART}
  end
  for _, role in ipairs(selector.role and {selector.role} or {QUEUE, WORK, REVIEW}) do
    for _, state in ipairs(states) do look_at_best(run, selector, role * STATES + state, look) end
  end
  return next(counts) and counts or false
end

-- The claim of a caller who got nothing, in the form of replies; `retry_ms` = when to ask again. It tells what is held
-- back, as it was when the agent was told last, if that was just now.
function held_counts.no_match(run, selector, agent, retry_ms)
  local key, asked = run.keys.told .. agent, cmsgpack.pack(selector)
  local known = redis.call('GET', key)
  local told = known and cmsgpack.unpack(known)
  if not told or told[1] ~= asked then
    told = {asked, held_counts.of(run, selector, agent)}
    redis.call('SET', key, cmsgpack.pack(told), 'PX', TOLD_MS)
  end
  return {'no_match', '', retry_ms, 0, 0, told[2] and {held_back = told[2]} or nil}
end

return held_counts
