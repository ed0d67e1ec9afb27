-- @include tree
-- Where a run of the script stopped, as text for the caller to bring back; '' for the beginning or end.
local function format_cursor(stopped)
  return stopped and whole(stopped[1]) .. ':' .. stopped[2] or ''
end

local function parse_cursor(text)
  local position, id = string.match(text, '^(-?%d+):(.*)$')
  return position and {tonumber(position), id} or nil
end

-- The only scope to look into, where there is no choice: with at most one filter by scope.
local function single_scope(selector)
  if selector.tags then return not (selector.tags[2] or selector.parent or selector.type) and 'g' .. selector.tags[1] end
  if selector.type then return not selector.parent and 'y' .. selector.type end
  return selector.parent and 'p' .. selector.parent or '*'
end

local function class_candidates(selector, class, after, wanted)
  local scope = orders_by_rank(selector) and not selector.complexity and not age_range(selector) and single_scope(selector)
  if not scope then return merged_candidates(selector, class, after, wanted) end
  local low, high = class * CLASS_SIZE, class * CLASS_SIZE + CLASS_SIZE - 1
  if selector.priority then low, high = low + selector.priority * PRIORITY_SIZE, low + (selector.priority + 1) * PRIORITY_SIZE - 1 end
  if after then low = math.max(low, after[1]) end
  return read_members('ZRANGEBYSCORE', K_RANKED .. scope, low, high, wanted)
end

-- Of one class or several, those together in one order: their positions leave the class out, so that an item that
-- moves from one to another stays where it is.
local function candidates(selector, classes, after, wanted)
  if not classes[2] then return class_candidates(selector, classes[1], after, wanted) end
  local runs = {}
  local function step(run)
    run.position, run.id = run.next()
    if run.id and orders_by_rank(selector) then run.position = run.position % CLASS_SIZE end
  end
  for n, class in ipairs(classes) do
    local behind = after and orders_by_rank(selector) and {class * CLASS_SIZE + after[1], after[2]} or after
    runs[n] = {next = class_candidates(selector, class, behind, wanted)}
    step(runs[n])
  end
  return merge_streams(runs, step, selector.order == 'newest')
end

local SKIP_COST = 0.3 -- what passing over one below a held item costs, of what a look at an item does

local PATIENCE = 4 -- items below held ones that are passed over one by one before another way is looked for

-- Whether the item stands below one that keeps it from the agent. Less work than `load_item`.
local function is_kept_from(agent, id, now)
  local parent = redis.call('HGET', K_ITEM .. id, 'pa')
  return parent and is_shielded({pa = parent}, agent, now)
end

-- Calls visit(item) for matching items of the classes (of several only without an agent) that are not shielded from
-- the agent (false: never mind shields), in the wanted order, until it returns true, which is likely after `wanted`
-- items, or `budget` candidates were looked at; without `visit` until there is one. Returns {position, id} of the last
-- one looked at, nil when there are no more, and the item that it ended with.
local function select_items(selector, classes, agent, now, after, budget, wanted, visit)
  local down, looked, stopped, found, walk = selector.order == 'newest', 0, nil, nil, nil
  local top = agent and (selector.ancestor or selector.parent)
  if top and (is_shielded({pa = top}, agent, now) or is_shielded({pa = selector.parent}, agent, now)) then return nil end
  local patience, wary = agent and (selector.ancestor and 0 or PATIENCE), false
  local next_one, last_position, last_id = nil, after and after[1], after and after[2]
  while true do
    if patience == 0 then
      patience = false
      walk = start_tree_walk(selector, classes[1], agent, now, last_position and {last_position, last_id})
      next_one = walk and walk.next or next_one
    end
    next_one = next_one or candidates(selector, classes, after, wanted)
    local position, id = next_one()
    if not id then
      stopped = walk and walk.over and {last_position or classes[1] * CLASS_SIZE, last_id or ''} or nil
      break
    end
    -- An item with two of the tags comes twice, one after the other.
    if not last_position or comes_before(last_position, last_id, position, id, down) then
      last_position, last_id = position, id
      if wary and is_kept_from(agent, id, now) then
        looked = looked + SKIP_COST
        patience = patience and patience - 1
      else
        looked = looked + 1
        local item = (visit or selector.changed_from or selector.changed_to) and load_item(id) or load_item_partly(id)
        wary = agent and item and is_shielded(item, agent, now) -- where one is below a held item there may be many
        if item and not wary and matches(item, selector) and (not visit or visit(item)) then found = item end
      end
      stopped = (found or looked >= budget) and {position, id} or nil
      if stopped then break end
    end
  end
  if walk then walk.mend() end
  return stopped, found
end
