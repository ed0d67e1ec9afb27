-- The best items for a selector (selectors.lua), found in bounded batches of candidates. These come from one range of a
-- scope, else from a merge of ranges (candidates.lua), or a walk of the tree past subtrees of held items (trees.lua).
-- owns: none
local apart = require 'apart'
local apart_sets = require 'apart_sets'
local bounds = require 'bounds'
local candidates = require 'candidates'
local classes = require 'classes'
local clock = require 'clock'
local demands = require 'demands'
local fairness = require 'fairness'
local first_sets = require 'first_sets'
local index = require 'index'
local items = require 'items'
local requirements = require 'requirements'
local selectors = require 'selectors'
local streams = require 'streams'
local trees = require 'trees'

local QUEUE, READY, REVIEW, WORK = classes.QUEUE, classes.READY, classes.REVIEW, classes.WORK
local ABANDONED, PARENT, PARENT_LEFT = classes.ABANDONED, classes.PARENT, classes.PARENT_LEFT
local CLASS_SIZE, PRIORITY_SIZE, STATES = classes.CLASS_SIZE, classes.PRIORITY_SIZE, classes.STATES

local selection = {}

local SKIP_COST = 0.3 -- cost of skipping an item below a held one, relative to checking an item
local SKIPS_MAX = 4 -- such items skipped one by one before a walk of the tree is tried

-- The field of a selector with an unknown item; nil if there is none.
function selection.missing_field(run, selector)
  if selector.parent and not items.load(run, selector.parent) then return 'parent' end
  if selector.ancestor and not items.load(run, selector.ancestor) then return 'ancestor' end
end

-- The cursor of a call, {position, id}, as text; '' for the beginning or end.
function selection.format_cursor(stopped)
  return stopped and clock.whole(stopped[1]) .. ':' .. stopped[2] or ''
end

-- {position, id} of a cursor, or nil.
function selection.parse_cursor(text)
  local position, id = string.match(text, '^(-?%d+):(.*)$')
  return position and {tonumber(position), id} or nil
end

-- The one or two scopes to search, if no more than one filter goes by scope; else none.
local function few_scopes(selector, set)
  local tags, parent, type_name = selector.tags, selector.parent, selector.type
  if tags then return not (tags[2] or parent or type_name) and 'g' .. tags[1] end
  if type_name then return not parent and 'y' .. type_name end
  if parent then return 'p' .. parent end
  if set then return '*' end
  return unpack(index.EVERYTHING)
end

-- The candidates of one class, of those in the set `set`, if given; arguments as for `candidates.merged`.
local function stream_of(run, selector, class, after, wanted, set)
  local scope, other, priority = false, nil, selector.priority
  if selectors.orders_by_rank(selector) and not selector.complexity and not selectors.age_range(selector) then
    scope, other = few_scopes(selector, set)
  end
  if not scope then return candidates.merged(run, selector, class, after, wanted, set) end
  local low, high = class * CLASS_SIZE, class * CLASS_SIZE + CLASS_SIZE - 1
  if priority then low, high = low + priority * PRIORITY_SIZE, low + (priority + 1) * PRIORITY_SIZE - 1 end
  if after then low = math.max(low, after[1]) end
  local ranked = run.keys.ranked
  if other then return streams.read_both(ranked .. scope, ranked .. other, low, high, wanted) end
  return streams.read(ranked .. (set and apart.scope(set, scope) or scope), low, high, wanted)
end

local function take_next(part)
  part.position, part.id = part.next()
end

-- The candidates of one class, with those apart that the agent may have: those of sets that require no more than it can
-- do (`served`, nil: none), and those of open sets with further conditions.
local function class_stream(run, selector, class, agent, after, wanted, served)
  local stream = stream_of(run, selector, class, after, wanted, nil)
  local has_sets = first_sets.exist(run)
  if not ((served or has_sets) and classes.READY_CLASSES[class]) then return stream end
  local function of_set(set) return stream_of(run, selector, class, after, wanted, set) end
  local parts = {{next = stream}}
  for n, set in ipairs(served or {}) do parts[n + 1] = {next = of_set(set)} end
  if not has_sets then return streams.merge(parts, take_next) end
  local by_rank = selectors.orders_by_rank(selector)
  local filtered = after or selector.priority or selector.complexity or selectors.age_range(selector)
  local whole = by_rank and not filtered and few_scopes(selector, true) == '*'
  for n = 1, #parts do take_next(parts[n]) end
  return apart_sets.stream(run, parts, selector, class, agent, by_rank, whole, of_set)
end

-- The classes from which a selector takes unclaimed items; `some_abandoned` = whether there may be abandoned ones.
function selection.claimable_classes(selector, some_abandoned)
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

-- Advances the stream of a class; its scores become positions if the selector asks for the order of rank.
local function step(part)
  local score, id = part.next()
  if score and part.by_rank then score = selectors.position_of(part.selector, part.class, score) end
  part.position, part.id = score, id
  return score, id
end

-- The candidates of one or several classes in one order, by positions as in selectors.lua.
local function merged_classes(run, selector, class_list, agent, after, wanted, served)
  local by_rank, parts = selectors.orders_by_rank(selector), {}
  for n, class in ipairs(class_list) do
    local from = after and by_rank and {selectors.score_at(selector, class, after[1]), after[2]} or after
    local next_candidate = class_stream(run, selector, class, agent, from, wanted, served)
    parts[n] = {class = class, selector = selector, by_rank = by_rank, next = next_candidate}
  end
  if parts[2] then return streams.merge(parts, step) end
  return function() return step(parts[1]) end
end

-- A walk, if it supports the selector (role, priority, complexity, ancestor, by rank) and there are no sets, else nil.
-- Arguments as for `trees.start`.
local function start_walk(run, selector, class_list, agent, after)
  if selector.parent or selector.type or selector.tags or selectors.age_range(selector) then return nil end
  if selector.changed_from or selector.changed_to or not selectors.orders_by_rank(selector) then return nil end
  if first_sets.exist(run) then return nil end -- what is apart is not in that index
  return trees.start(run, selector, class_list, agent, after)
end

-- Whether a claim above the item keeps it from the agent. Cheaper than `items.load`.
local function is_kept_from(run, agent, id, scope)
  local parent = redis.call('HGET', run.keys.item .. id, 'pa')
  return parent and selectors.is_shielded(run, {pa = parent}, agent, scope)
end

-- Whether an agent could take what an item demands of resources; else it passes the item over. The open set of an item
-- shows it if all of the item's demands are among its conditions.
local function is_free(run, item, agent)
  local in_set = item.as and classes.READY_CLASSES[item.class]
  local all = in_set and not item.rp and #demands.nodes_of_conditions(item.as) == #demands.nodes_of(item.rs)
  if all or not agent or not fairness.busy_node(run, item, item.rs, agent) then return true end
  if agent ~= '' then fairness.pass_item(run, item) end
  return false
end

-- Calls visit(item) for matching items of the classes that no claim above them keeps from the agent ('' for nobody,
-- false: ignore such claims), in the wanted order, until it returns true, probably after `wanted` items, or until
-- `budget` candidates were checked; without `visit` until the first match. Returns {position, id} of the last
-- candidate, nil if there are no more, and the last item.
function selection.select(run, selector, class_list, agent, after, budget, wanted, visit)
  local scope = selector.parent or selector.ancestor
  local served = selector.capabilities and requirements.served_by(run, selector.capabilities)
  local spent, passes, stopped, found, walk = 0, first_sets.exist(run), nil, nil, nil
  local skips_left = agent and (selector.ancestor and 0 or SKIPS_MAX) -- false: do not try a walk (again)
  local after_shielded = false -- after one item below a held one, more are likely
  local next_candidate, last_position, last_id = nil, after and after[1], after and after[2]
  while true do
    if skips_left == 0 then
      skips_left = false
      walk = not served and start_walk(run, selector, class_list, agent, last_position and {last_position, last_id})
    end
    if not walk then
      next_candidate = next_candidate or merged_classes(run, selector, class_list, agent, after, wanted, served)
    end
    local position, id
    if walk then position, id = trees.next(run, walk) else position, id = next_candidate() end
    if not id then
      stopped = walk and walk.over and {last_position or 0, last_id or ''} or nil
      break
    end
    -- An item with two of the tags comes twice in a row.
    if not last_position or streams.comes_before(last_position, last_id, position, id) then
      last_position, last_id = position, id
      if after_shielded and is_kept_from(run, agent, id, scope) then
        spent = spent + SKIP_COST
        skips_left = skips_left and skips_left - 1
      else
        spent = spent + 1
        local item = items.load(run, id)
        after_shielded = agent and item and item.pa and selectors.is_shielded(run, item, agent, scope)
        local suits = item and not after_shielded and selectors.matches(run, item, selector)
        if suits and item.rs and not is_free(run, item, agent) then suits, passes = false, true end
        if suits and (not visit or visit(item)) then found = item end
      end
      stopped = (found or spent >= budget) and {position, id} or nil
      if stopped then break end
    end
  end
  if walk then bounds.mend(run, walk.mends) end
  if passes then fairness.record(run) end
  return stopped, found
end

return selection
