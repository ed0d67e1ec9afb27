-- @include runs
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

local function candidates(sel, class, after, wanted)
  local scope = by_rank(sel) and not sel.complexity and not ages(sel) and only_scope(sel)
  if not scope then return merged(sel, class, after, wanted) end
  local low, high = class * CLASS, class * CLASS + CLASS - 1
  if sel.priority then low, high = low + sel.priority * PRIORITY, low + (sel.priority + 1) * PRIORITY - 1 end
  if after then low = math.max(low, after[1]) end
  return members('ZRANGEBYSCORE', K_RANKED .. scope, low, high, wanted)
end

local PASSED = 0.3 -- what passing over one below a held item costs, of what a look at an item does

-- Whether the item stands below one that keeps it from the agent. Less work than `load`.
local function kept_from(agent, id, now)
  local parent = redis.call('HGET', K_ITEM .. id, 'pa')
  return parent and shielded({pa = parent}, agent, now)
end

-- Calls visit(item) for matching items of the class that are not shielded from the agent (false: never mind
-- shields), in the wanted order, until it returns true, which is likely after `wanted` items, or `budget`
-- candidates were looked at; without `visit` until there is one. Returns {position, id} of the last one looked
-- at, nil when there are no more, and the item that it ended with.
local function select_items(sel, class, agent, now, after, budget, wanted, visit)
  local next_one, down, looked = candidates(sel, class, after, wanted), sel.order == 'newest', 0
  local wary = false -- where one is below a held item there may be many
  local last_position, last_id = after and after[1], after and after[2]
  while true do
    local position, id = next_one()
    if not id then return nil end
    -- An item with two of the tags comes twice, one after the other.
    if not last_position or before(last_position, last_id, position, id, down) then
      last_position, last_id = position, id
      if wary and kept_from(agent, id, now) then
        looked = looked + PASSED
      else
        looked = looked + 1
        local it = load(id)
        wary = agent and it and shielded(it, agent, now)
        if it and not wary and matches(it, sel) and (not visit or visit(it)) then return {position, id}, it end
      end
      if looked >= budget then return {position, id} end
    end
  end
end
