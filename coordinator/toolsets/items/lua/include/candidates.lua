-- @include filters
-- @include streams
-- Candidates for a selector in its order, from the ranked index, given one after the other as (position, id).
-- Within a class the members of one (priority, complexity) are a contiguous range of scores in order of age,
-- so the candidates of any order are a merge of ranges.

-- The narrowest scopes that hold every match.
local function narrowest_scopes(selector, class)
  local best, best_size = {'*'}, math.huge
  local function compare(list)
    local size = 0
    for _, scope in ipairs(list) do
      size = size + redis.call('ZCOUNT', K_RANKED .. scope, class * CLASS_SIZE, class * CLASS_SIZE + CLASS_SIZE - 1)
    end
    if size < best_size then best, best_size = list, size end
  end
  if selector.parent then compare({'p' .. selector.parent}) end
  if selector.type then compare({'y' .. selector.type}) end
  if selector.tags then
    local list = {}
    for n, tag in ipairs(selector.tags) do list[n] = 'g' .. tag end
    compare(list)
  end
  return best
end

-- The ranges of scores in a class that may suit: {lowest, highest}.
local function score_ranges(selector, class)
  local first, last = selector.priority or 0, selector.priority or 2
  local start = class * CLASS_SIZE
  if not selector.complexity then return {{start + first * PRIORITY_SIZE, start + (last + 1) * PRIORITY_SIZE - 1}} end
  local list = {}
  for priority = first, last do
    local low = start + priority * PRIORITY_SIZE
    list[#list + 1] = {low, low + (selector.complexity + 1) * GROUP_SIZE - 1}
  end
  return list
end

-- The candidates of any selector in one class; `after` = {position, id} of the last one that was looked at, or nil;
-- `wanted` = how many are likely to be needed. Positions are scores, or ages (negative for newest first).
local function merged_candidates(selector, class, after, wanted)
  local runs, down, from = {}, selector.order == 'newest', after and after[1]
  local first_age, last_age = age_range(selector)
  -- The non-empty (priority, complexity) groups of a range of scores, by the score at which each begins.
  local function group_starts(key, low, high)
    local list, start = {}, low
    while start <= high do
      local first = redis.call('ZRANGEBYSCORE', key, start, high, 'WITHSCORES', 'LIMIT', 0, 1)
      if not first[1] then break end
      list[#list + 1] = math.floor(first[2] / GROUP_SIZE) * GROUP_SIZE
      start = list[#list] + GROUP_SIZE
    end
    return list
  end
  local function step(run)
    local score, id = run.next()
    if score and not orders_by_rank(selector) then score = down and -(score % GROUP_SIZE) or score % GROUP_SIZE end
    run.position, run.id = score, id
  end
  local function add_run(read, key, low, high)
    local run = {next = read(key, low, high, wanted)}
    runs[#runs + 1] = run
    step(run)
  end
  for _, scope in ipairs(narrowest_scopes(selector, class)) do
    local key = K_RANKED .. scope
    for _, range in ipairs(score_ranges(selector, class)) do
      if orders_by_rank(selector) and not first_age then
        add_run(read_members, key, math.max(range[1], from or 0), range[2])
      else
        for _, base in ipairs(group_starts(key, range[1], range[2])) do
          local low, high = base + (first_age or 0), base + (last_age or GROUP_SIZE - 1)
          if down then
            add_run(read_members_down, key, math.min(base - (from or -GROUP_SIZE), high), low)
          else
            add_run(read_members, key, math.max((orders_by_rank(selector) and 0 or base) + (from or 0), low), high)
          end
        end
      end
    end
  end
  return merge_streams(runs, step)
end
