-- @include runs
-- Where a run of the script stopped, as text for the caller to bring back; '' for the beginning or end.
local function cursor(stopped)
  return stopped and whole(stopped[1]) .. ':' .. stopped[2] or ''
end

local function resume(text)
  local position, id = string.match(text, '^(-?%d+):(.*)$')
  return position and {tonumber(position), id} or nil
end

-- Calls visit(item) for matching items of the class that are not shielded from the agent (false: never
-- mind shields), in the wanted order, until it returns true, after `wanted` items or so, or `budget`
-- candidates were looked at. Returns {position, id} of the last one looked at, or nil when there are no more.
local function select_items(sel, class, agent, now, after, budget, wanted, visit)
  local runs, looked = open_runs(sel, class, after, wanted), 0
  local last_position, last_id = after and after[1], after and after[2]
  while true do
    local run, position, id = next_run(runs)
    if not run then return nil end
    run.at = run.at + 2
    -- An item with two of the tags comes twice, one after the other.
    if not last_position or before(last_position, last_id, position, id, run.down) then
      last_position, last_id, looked = position, id, looked + 1
      local it = load(id)
      local found = it and matches(it, sel) and not (agent and shielded(it, agent, now)) and visit(it)
      if found or looked >= budget then return {position, id} end
    end
  end
end
