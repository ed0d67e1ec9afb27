-- @include tree
-- Where a run of the script stopped, as text for the caller to bring back; '' for the beginning or end.
local function cursor(stopped)
  return stopped and whole(stopped[1]) .. ':' .. stopped[2] or ''
end

local function resume(text)
  local position, id = string.match(text, '^(-?%d+):(.*)$')
  return position and {tonumber(position), id} or nil
end

-- The only scope to look into, where there is no choice: with at most one filter by scope.
local function only_scope(sel)
  if sel.tags then return not (sel.tags[2] or sel.parent or sel.type) and 'g' .. sel.tags[1] end
  if sel.type then return not sel.parent and 'y' .. sel.type end
  return sel.parent and 'p' .. sel.parent or '*'
end

local function of_class(sel, class, after, wanted)
  local scope = by_rank(sel) and not sel.complexity and not ages(sel) and only_scope(sel)
  if not scope then return merged(sel, class, after, wanted) end
  local low, high = class * CLASS, class * CLASS + CLASS - 1
  if sel.priority then low, high = low + sel.priority * PRIORITY, low + (sel.priority + 1) * PRIORITY - 1 end
  if after then low = math.max(low, after[1]) end
  return members('ZRANGEBYSCORE', K_RANKED .. scope, low, high, wanted)
end

-- Of one class or several, those together in one order: their positions leave the class out, so that an item that
-- moves from one to another stays where it is.
local function candidates(sel, classes, after, wanted)
  if not classes[2] then return of_class(sel, classes[1], after, wanted) end
  local runs = {}
  local function step(run)
    run.position, run.id = run.next()
    if run.id and by_rank(sel) then run.position = run.position % CLASS end
  end
  for n, class in ipairs(classes) do
    local behind = after and by_rank(sel) and {class * CLASS + after[1], after[2]} or after
    runs[n] = {next = of_class(sel, class, behind, wanted)}
    step(runs[n])
  end
  return first_of(runs, step, sel.order == 'newest')
end

local PASSED = 0.3 -- what passing over one below a held item costs, of what a look at an item does

local PATIENCE = 4 -- items below held ones that are passed over one by one before another way is looked for

-- Whether the item stands below one that keeps it from the agent. Less work than `load`.
local function kept_from(agent, id, now)
  local parent = redis.call('HGET', K_ITEM .. id, 'pa')
  return parent and shielded({pa = parent}, agent, now)
end

-- Calls visit(item) for matching items of the classes (of several only without an agent) that are not shielded from
-- the agent (false: never mind shields), in the wanted order, until it returns true, which is likely after `wanted`
-- items, or `budget` candidates were looked at; without `visit` until there is one. Returns {position, id} of the last
-- one looked at, nil when there are no more, and the item that it ended with.
local function select_items(sel, classes, agent, now, after, budget, wanted, visit)
  local down, looked, stopped, found, walk = sel.order == 'newest', 0, nil, nil, nil
  local top = agent and (sel.ancestor or sel.parent)
  if top and (shielded({pa = top}, agent, now) or shielded({pa = sel.parent}, agent, now)) then return nil end
  local patience, wary = agent and (sel.ancestor and 0 or PATIENCE), false
  local next_one, last_position, last_id = nil, after and after[1], after and after[2]
  while true do
    if patience == 0 then
      patience = false
      walk = climb(sel, classes[1], agent, now, last_position and {last_position, last_id})
      next_one = walk and walk.next or next_one
    end
    next_one = next_one or candidates(sel, classes, after, wanted)
    local position, id = next_one()
    if not id then
      stopped = walk and walk.over and {last_position or classes[1] * CLASS, last_id or ''} or nil
      break
    end
    -- An item with two of the tags comes twice, one after the other.
    if not last_position or before(last_position, last_id, position, id, down) then
      last_position, last_id = position, id
      if wary and kept_from(agent, id, now) then
        looked = looked + PASSED
        patience = patience and patience - 1
      else
        looked = looked + 1
        local it = (visit or sel.changed_from or sel.changed_to) and load(id) or glance(id)
        wary = agent and it and shielded(it, agent, now) -- where one is below a held item there may be many
        if it and not wary and matches(it, sel) and (not visit or visit(it)) then found = it end
      end
      stopped = (found or looked >= budget) and {position, id} or nil
      if stopped then break end
    end
  end
  if walk then walk.mend() end
  return stopped, found
end
