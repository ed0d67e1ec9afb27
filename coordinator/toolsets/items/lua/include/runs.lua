-- @include filters
-- @include streams
-- Candidates for a selector in its order, from the ranked index, given one after the other as (position, id).
-- Within a class the members of one (priority, complexity) are a contiguous range of scores in order of age,
-- so the candidates of any order are a merge of ranges.

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

-- The ranges of scores in a class that may suit: {lowest, highest}.
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

-- The non-empty (priority, complexity) groups of a range of scores, by the score at which each begins.
local function groups(key, low, high)
  local list, from = {}, low
  while from <= high do
    local first = redis.call('ZRANGEBYSCORE', key, from, high, 'WITHSCORES', 'LIMIT', 0, 1)
    if not first[1] then break end
    list[#list + 1] = math.floor(first[2] / GROUP) * GROUP
    from = list[#list] + GROUP
  end
  return list
end

-- The candidates of any selector; `after` = {position, id} of the last one that was looked at, or nil.
-- Positions are scores, or ages (negative for newest first).
local function merged(sel, class, after, wanted)
  local runs, down, from = {}, sel.order == 'newest', after and after[1]
  local first, last = ages(sel)
  local function step(run)
    local score, id = run.next()
    if score and not by_rank(sel) then score = down and -(score % GROUP) or score % GROUP end
    run.position, run.id = score, id
  end
  local function open(command, key, low, high)
    local run = {next = members(command, key, low, high, wanted)}
    runs[#runs + 1] = run
    step(run)
  end
  for _, scope in ipairs(narrowest(sel, class)) do
    local key = K_RANKED .. scope
    for _, range in ipairs(ranges(sel, class)) do
      if by_rank(sel) and not first then
        open('ZRANGEBYSCORE', key, math.max(range[1], from or 0), range[2])
      else
        for _, base in ipairs(groups(key, range[1], range[2])) do
          local low, high = base + (first or 0), base + (last or GROUP - 1)
          if down then
            open('ZREVRANGEBYSCORE', key, math.min(base - (from or -GROUP), high), low)
          else
            open('ZRANGEBYSCORE', key, math.max((by_rank(sel) and 0 or base) + (from or 0), low), high)
          end
        end
      end
    end
  end
  return first_of(runs, step, down)
end
