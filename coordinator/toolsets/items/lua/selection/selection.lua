-- The best items for a selector (selectors.lua), found in bounded batches of candidates. These come from one range of a
-- scope, else from a merge of ranges (candidates.lua), or a walk of the tree past subtrees of held items (trees.lua).
-- A search is {selector, agent = for whom: '' for nobody, false: whatever is claimed or demanded, sets = where it looks
-- (requirements.lua), wanted = how many items it probably takes}.
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

local CLASS_SIZE, PRIORITY_SIZE = classes.CLASS_SIZE, classes.PRIORITY_SIZE
local SHARED = requirements.SHARED
local SHARED_ALONE = {SHARED}

local selection = {}

local SKIP_COST = 0.3 -- cost of skipping an item below a held one, relative to checking an item
local SKIPS_MAX = 4 -- such items skipped one by one before a walk of the tree is tried
local WALKED_MAX = 8 -- sets in a walk

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

-- The candidates of a search of one class, of those in the set `set`, if given; `after` as for `candidates.merged`.
local function stream_of(run, search, class, after, set)
  local selector, wanted, scope, other = search.selector, search.wanted, false, nil
  local priority = selector.priority
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

-- The candidates of one class in the sets of a search, with those of open sets with further conditions.
local function class_stream(run, search, class, after)
  local selector, has_sets = search.selector, first_sets.exist(run)
  if not (search.sets or has_sets) or not classes.READY_CLASSES[class] then
    return stream_of(run, search, class, after, nil)
  end
  local function of_set(set) return stream_of(run, search, class, after, set) end
  local parts = {}
  for n, set in ipairs(search.sets or SHARED_ALONE) do parts[n] = {next = of_set(set ~= SHARED and set)} end
  if not has_sets then return streams.merge(parts, take_next) end
  local by_rank = selectors.orders_by_rank(selector)
  local filtered = after or selector.priority or selector.complexity or selectors.age_range(selector)
  local whole = by_rank and not filtered and few_scopes(selector, true) == '*'
  for n = 1, #parts do take_next(parts[n]) end
  return apart_sets.stream(run, parts, selector, class, search.agent, by_rank, whole, of_set)
end

-- Advances the stream of a class; its scores become positions if the selector asks for the order of rank.
local function step(part)
  local score, id = part.next()
  if score and part.by_rank then score = selectors.position_of(part.selector, part.class, score) end
  part.position, part.id = score, id
  return score, id
end

-- The candidates of one or several classes in one order, by positions as in selectors.lua.
local function merged_classes(run, search, class_list, after)
  local selector, parts = search.selector, {}
  local by_rank = selectors.orders_by_rank(selector)
  for n, class in ipairs(class_list) do
    local from = after and by_rank and {selectors.score_at(selector, class, after[1]), after[2]} or after
    local next_candidate = class_stream(run, search, class, from)
    parts[n] = {class = class, selector = selector, by_rank = by_rank, next = next_candidate}
  end
  if parts[2] then return streams.merge(parts, step) end
  return function() return step(parts[1]) end
end

-- A walk, if it supports the selector (role, priority, complexity, ancestor, by rank) and there are few sets and none
-- with further conditions, else nil. Arguments as for `trees.start`.
local function start_walk(run, search, class_list, after)
  local selector = search.selector
  if selector.parent or selector.type or selector.tags or selectors.age_range(selector) then return nil end
  if selector.changed_from or selector.changed_to or not selectors.orders_by_rank(selector) then return nil end
  if first_sets.exist(run) or search.sets and #search.sets > WALKED_MAX then return nil end
  return trees.start(run, search, class_list, after)
end

-- Whether a claim above the item keeps it from the agent. Cheaper than `items.load`.
local function is_kept_from(run, agent, id, scope)
  local parent = redis.call('HGET', run.keys.item .. id, 'pa')
  return parent and selectors.is_shielded(run, {pa = parent}, agent, scope)
end

-- Whether all of an item's demands are conditions of its set, so that they can be met where that is open.
local function is_in_open_set(item)
  local in_set = item.as and classes.READY_CLASSES[item.class]
  return in_set and not item.rp and #demands.nodes_of_conditions(item.as) == #demands.nodes_of(item.rs)
end

-- Calls visit(item) for items of the classes that match a search and that no claim above them keeps from its agent, in
-- the wanted order, until it returns true or until `budget` candidates were checked; without `visit` until the first
-- match. An item that the agent does not get for want of resources is passed over. Returns {position, id} of the last
-- candidate, nil if there are no more, and the last item.
function selection.select(run, search, class_list, after, budget, visit)
  local selector, agent = search.selector, search.agent
  local scope = selector.parent or selector.ancestor
  search.sets = requirements.sets_for(run, search)
  local spent, passes = 0, first_sets.exist(run)
  local stopped, found, walk
  local skips_left = agent and (selector.ancestor and 0 or SKIPS_MAX) -- false: do not try a walk (again)
  local after_shielded = false -- after one item below a held one, more are likely
  local next_candidate, last_position, last_id = nil, after and after[1], after and after[2]
  while true do
    if skips_left == 0 then
      skips_left = false
      walk = start_walk(run, search, class_list, last_position and {last_position, last_id})
    end
    if not walk then next_candidate = next_candidate or merged_classes(run, search, class_list, after) end
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
        local matches = item and not after_shielded and selectors.matches(run, item, selector)
        local why
        if matches and (search.sets or item.rq or item.as or item.rs or item.to) then
          why = requirements.against(run, item, search, item.rs and is_in_open_set(item))
        end
        if why == 'resources' then
          passes = true
          if agent ~= '' then fairness.pass_item(run, item) end
        elseif matches and why == nil and (not visit or visit(item)) then
          found = item
        end
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
