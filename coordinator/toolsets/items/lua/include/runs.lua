-- @include filters
-- Candidates in rank order or by age, from the ranked index. Within a class the members of one (priority,
-- complexity) are a contiguous range of scores in order of age, so the candidates of any order are a
-- merge of runs: (key, lowest, highest score).

local GROUP = 2 ^ 41 -- scores of one priority and complexity
local PRIORITY_SPAN = 2 ^ 49
local PAGE = 16

-- The narrowest scopes that hold every match.
local function narrowest(sel, class)
  local best, best_size = {'*'}, math.huge
  local function offer(list)
    local size = 0
    for _, scope in ipairs(list) do size = size + redis.call('ZCARD', index_key(scope, class)) end
    if size < best_size then best, best_size = list, size end
  end
  if sel.parent ~= '' then offer({'p' .. sel.parent}) end
  if sel.type ~= '' then offer({'y' .. sel.type}) end
  if #sel.tags > 0 then
    local list = {}
    for n, tag in ipairs(sel.tags) do list[n] = 'g' .. tag end
    offer(list)
  end
  return best
end

local function read_page(run)
  local command = run.down and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
  local from, to = whole(run.low), whole(run.high)
  if run.down then from, to = to, from end
  run.page = redis.call(command, run.key, from, to, 'WITHSCORES', 'LIMIT', run.seen, PAGE)
  run.seen, run.at = run.seen + #run.page / 2, 1
end

-- Where a run stands in the wanted order: (position, id), or nil at its end.
local function head(run)
  if run.at > #run.page then
    if run.done then return nil end
    read_page(run)
    run.done = #run.page < 2 * PAGE
    if #run.page == 0 then return nil end
  end
  local score = tonumber(run.page[run.at + 1])
  if run.order == 'priority' then return score, run.page[run.at] end
  local age = score % GROUP
  return run.down and -age or age, run.page[run.at]
end

-- The non-empty (priority, complexity) groups of a key, as runs.
local function group_runs(key, sel, runs, low, high)
  local from = low
  while true do
    local first = redis.call('ZRANGEBYSCORE', key, whole(from), whole(high), 'WITHSCORES', 'LIMIT', 0, 1)
    if #first == 0 then return end
    local base = math.floor(tonumber(first[2]) / GROUP) * GROUP
    runs[#runs + 1] = {key = key, low = base, high = base + GROUP - 1, order = sel.order, down = sel.order == 'newest'}
    from = base + GROUP
    if from > high then return end
  end
end

-- `after` = {position, id} of the last candidate that was looked at, or nil.
local function open_runs(sel, class, after)
  local runs = {}
  local first, last = sel.priority, sel.priority
  if sel.priority < 0 then first, last = 0, 2 end
  for _, scope in ipairs(narrowest(sel, class)) do
    local key = index_key(scope, class)
    for priority = first, last do
      local low = priority * PRIORITY_SPAN
      local high = low + (sel.complexity > 0 and (sel.complexity + 1) * GROUP or PRIORITY_SPAN) - 1
      if sel.order == 'priority' then
        runs[#runs + 1] = {key = key, low = low, high = high, order = sel.order}
      else
        group_runs(key, sel, runs, low, high)
      end
    end
  end
  for _, run in ipairs(runs) do
    run.seen, run.at, run.page = 0, 1, {}
    if after and sel.order == 'priority' then
      run.low = math.max(run.low, after[1])
    elseif after and run.down then
      run.high = run.low - after[1]
    elseif after then
      run.low = run.low + after[1]
    end
  end
  return runs
end

-- Ids break ties: in their order, or against it where the runs are read from their ends.
local function before(p, i, position, id, down)
  if p ~= position then return p < position end
  if down then return i > id end
  return i < id
end

-- The run with the next candidate, its position and id; nil at the end.
local function next_run(runs)
  local best, position, id
  for _, run in ipairs(runs) do
    local p, i = head(run)
    if p and (not position or before(p, i, position, id, run.down)) then best, position, id = run, p, i end
  end
  return best, position, id
end
