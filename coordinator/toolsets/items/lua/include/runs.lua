-- @include filters
-- Candidates in rank order or by age, from the ranked index. Within a class the members of one (priority,
-- complexity) are a contiguous range of scores in order of age, so the candidates of any order are a
-- merge of runs: (key, lowest, highest score).

local MOST = 32 -- candidates read at a time

-- The narrowest scopes that hold every match.
local function narrowest(sel, class)
  local best, best_size = {'*'}, math.huge
  local function offer(list)
    local size = 0
    for _, scope in ipairs(list) do
      size = size + redis.call('ZCOUNT', K_RANKED .. scope, class * CLASS, class * CLASS + CLASS - 1)
    end
    if size < best_size then best, best_size = list, size end
  end
  if sel.parent then offer({'p' .. sel.parent}) end
  if sel.type then offer({'y' .. sel.type}) end
  if sel.tags then
    local list = {}
    for n, tag in ipairs(sel.tags) do list[n] = 'g' .. tag end
    offer(list)
  end
  return best
end

local function read_page(run)
  local command, from, to = 'ZRANGEBYSCORE', run.low, run.high
  if run.down then command, from, to = 'ZREVRANGEBYSCORE', to, from end
  run.page = redis.call(command, run.key, from, to, 'WITHSCORES', 'LIMIT', run.seen, run.size)
  run.done = #run.page < 2 * run.size
  run.seen, run.at, run.size = run.seen + #run.page / 2, 1, math.min(4 * run.size, MOST)
end

-- Where a run stands in the wanted order: (position, id), or nil at its end.
local function head(run)
  if run.at > #run.page then
    if run.done then return nil end
    read_page(run)
    if #run.page == 0 then return nil end
  end
  local score = tonumber(run.page[run.at + 1])
  if run.by_rank then return score, run.page[run.at] end
  local age = score % GROUP
  return run.down and -age or age, run.page[run.at]
end

-- The non-empty (priority, complexity) groups of a range of scores, as runs.
local function group_runs(key, runs, low, high, down)
  local from = low
  while from <= high do
    local first = redis.call('ZRANGEBYSCORE', key, from, high, 'WITHSCORES', 'LIMIT', 0, 1)
    if #first == 0 then return end
    local base = math.floor(tonumber(first[2]) / GROUP) * GROUP
    runs[#runs + 1] = {key = key, low = base, high = base + GROUP - 1, down = down}
    from = base + GROUP
  end
end

-- The ranges of scores in a class that may suit.
local function ranges(sel, class)
  local first, last = sel.priority or 0, sel.priority or 2
  local start = class * CLASS
  if not sel.complexity then return {{start + first * PRIORITY, start + (last + 1) * PRIORITY - 1}} end
  local list = {}
  for priority = first, last do
    local low = start + priority * PRIORITY
    list[#list + 1] = {low, low + (sel.complexity + 1) * GROUP - 1}
  end
  return list
end

-- `after` = {position, id} of the last candidate that was looked at, or nil; `wanted` = how many are likely to do.
local function open_runs(sel, class, after, wanted)
  local runs, by_rank, down = {}, not sel.order or sel.order == 'priority', sel.order == 'newest'
  for _, scope in ipairs(narrowest(sel, class)) do
    local key = K_RANKED .. scope
    for _, range in ipairs(ranges(sel, class)) do
      if by_rank then
        runs[#runs + 1] = {key = key, low = range[1], high = range[2], by_rank = true}
      else
        group_runs(key, runs, range[1], range[2], down)
      end
    end
  end
  for _, run in ipairs(runs) do
    run.seen, run.at, run.page, run.size = 0, 1, {}, math.min(wanted, MOST)
    if after and by_rank then
      run.low = math.max(run.low, after[1])
    elseif after and down then
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
