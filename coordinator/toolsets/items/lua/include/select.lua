-- @include tree
-- The best items for a selector (include/filters.lua), in bounded runs. Candidates come from one range of one scope if
-- that is enough; else from a merge of ranges (include/candidates.lua); or, if many are below held items, from a walk
-- of the tree that skips these as a whole (include/tree.lua).

-- Where a run of the script stopped, {position, id}, as text for the caller to bring back; '' for the beginning or end.
local function format_cursor(stopped)
  return stopped and whole(stopped[1]) .. ':' .. stopped[2] or ''
end

-- {position, id}, or nil.
local function parse_cursor(text)
  local position, id = string.match(text, '^(-?%d+):(.*)$')
  return position and {tonumber(position), id} or nil
end

-- The only scope to look into, where there is no choice: with at most one filter by scope. Else false.
local function single_scope(selector)
  local tags, parent = selector.tags, selector.parent
  if tags then return not (tags[2] or parent or selector.type) and 'g' .. tags[1] end
  if selector.type then return not parent and 'y' .. selector.type end
  return parent and 'p' .. parent or '*'
end

-- Of one class; arguments as of `merged_candidates`.
local function class_candidates(selector, class, after, wanted)
  local one_range = orders_by_rank(selector) and not selector.complexity and not age_range(selector)
  local scope, priority = one_range and single_scope(selector), selector.priority
  if not scope then return merged_candidates(selector, class, after, wanted) end
  local low, high = class * CLASS_SIZE, class * CLASS_SIZE + CLASS_SIZE - 1
  if priority then low, high = low + priority * PRIORITY_SIZE, low + (priority + 1) * PRIORITY_SIZE - 1 end
  if after then low = math.max(low, after[1]) end
  return read_members(K_RANKED .. scope, low, high, wanted)
end

-- The classes that a selector takes unclaimed items from; `some_abandoned` = whether there may be abandoned ones.
local function claimable_classes(selector, some_abandoned)
  local role = selector.role or QUEUE
  if not some_abandoned then return {role * STATES + READY} end
  if not selector.role then return {QUEUE * STATES + READY, WORK * STATES + ABANDONED, REVIEW * STATES + ABANDONED} end
  if role == WORK or role == REVIEW then return {role * STATES + READY, role * STATES + ABANDONED} end
  return {role * STATES + READY}
end

-- Of one class or several, those together in one order by (position, id), with the positions of include/positions.lua.
local function candidates(selector, classes, after, wanted)
  local by_rank, runs = orders_by_rank(selector), {}
  local function read(run)
    local score, id = run.next()
    return score and by_rank and position_of(selector, run.class, score) or score, id
  end
  for n, class in ipairs(classes) do
    local behind = after and by_rank and {score_at(selector, class, after[1]), after[2]} or after
    runs[n] = {class = class, next = class_candidates(selector, class, behind, wanted)}
  end
  if not runs[2] then
    return function() return read(runs[1]) end
  end
  local function step(run) run.position, run.id = read(run) end
  for _, run in ipairs(runs) do step(run) end
  return merge_streams(runs, step)
end

-- A walk, where that is a way to what is asked for (role, priority, complexity, ancestor, by rank), else nil. Arguments
-- as of `walk_tree`.
local function start_tree_walk(selector, classes, agent, now, after)
  if selector.parent or selector.type or selector.tags or age_range(selector) then return nil end
  if selector.changed_from or selector.changed_to or not orders_by_rank(selector) then return nil end
  return bounds_complete() and walk_tree(selector, classes, agent, now, after) or nil
end

-- Whether the item stands below one that keeps it from the agent. Less work than `load_item`.
local function is_kept_from(agent, id, now, scope)
  local parent = redis.call('HGET', K_ITEM .. id, 'pa')
  return parent and is_shielded({pa = parent}, agent, now, scope)
end

-- Calls visit(item) for matching items of the classes that are not shielded from the agent ('' for nobody, false: never mind shields), in the wanted order, until it returns true, which is likely
-- after `wanted` items, or `budget` candidates were looked at; without `visit` until there is one. Returns {position,
-- id} of the last one looked at, nil when there are no more, and the item that it ended with.
local function select_items(selector, classes, agent, now, after, budget, wanted, visit)
  local spent, stopped, found, walk = 0, nil, nil, nil
  local SKIP_COST = 0.3 -- what passing over an item below a held one costs, of what a look at an item does
  local SKIPS_MAX = 4 -- such items that are passed over one by one before a walk of the tree is tried
  local scope = selector.parent or selector.ancestor
  local skips_left = agent and (selector.ancestor and 0 or SKIPS_MAX) -- false where no walk is to be tried (any more)
  local after_shielded = false -- where one item is below a held one, the next are likely to be
  local next_candidate, last_position, last_id = nil, after and after[1], after and after[2]
  while true do
    if skips_left == 0 then
      skips_left = false
      walk = start_tree_walk(selector, classes, agent, now, last_position and {last_position, last_id})
      next_candidate = walk and walk.next or next_candidate
    end
    next_candidate = next_candidate or candidates(selector, classes, after, wanted)
    local position, id = next_candidate()
    if not id then
      stopped = walk and walk.over and {last_position or 0, last_id or ''} or nil
      break
    end
    -- An item with two of the tags comes twice, one after the other.
    if not last_position or comes_before(last_position, last_id, position, id) then
      last_position, last_id = position, id
      if after_shielded and is_kept_from(agent, id, now, scope) then
        spent = spent + SKIP_COST
        skips_left = skips_left and skips_left - 1
      else
        spent = spent + 1
        local item = (visit or selector.changed_from or selector.changed_to) and load_item(id) or load_item_partly(id)
        after_shielded = agent and item and is_shielded(item, agent, now, scope)
        if item and not after_shielded and matches(item, selector) and (not visit or visit(item)) then found = item end
      end
      stopped = (found or spent >= budget) and {position, id} or nil
      if stopped then break end
    end
  end
  if walk then walk.mend() end
  return stopped, found
end
