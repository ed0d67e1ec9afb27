-- Candidates for a selector in its order, from the ranked index, as streams (streams.lua). Within a class the
-- members of one (priority, complexity) are a contiguous range of scores in order of age, so the candidates of any
-- order are a merge of ranges.
-- owns: none
local apart = require 'apart'
local classes = require 'classes'
local index = require 'index'
local selectors = require 'selectors'
local streams = require 'streams'

local CLASS_SIZE, GROUP_SIZE, PRIORITY_SIZE = classes.CLASS_SIZE, classes.GROUP_SIZE, classes.PRIORITY_SIZE

local candidates = {}

-- The smallest scopes of a class that together hold every match, of those in the set `set`, if given.
local function narrowest_scopes(run, selector, class, set)
  local by_age = not selectors.orders_by_rank(selector)
  local best, best_size = set and {apart.scope(set, '*', by_age)} or index.EVERYTHING, math.huge
  local low, high = class * CLASS_SIZE, (class + 1) * CLASS_SIZE - 1
  local function compare(list)
    local size = 0
    for n, scope in ipairs(list) do
      if set then list[n] = apart.scope(set, scope, by_age) end
      size = size + redis.call('ZCOUNT', run.keys.ranked .. list[n], low, high)
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

-- The ranges of scores in a class that may match: {lowest, highest}.
function candidates.score_ranges(selector, class)
  local first, last = selector.priority or 0, selector.priority or 2
  local start = class * CLASS_SIZE
  if not selector.complexity then
    return {{start + first * PRIORITY_SIZE, start + (last + 1) * PRIORITY_SIZE - 1}}
  end
  local list = {}
  for priority = first, last do
    local low = start + priority * PRIORITY_SIZE
    list[#list + 1] = {low, low + (selector.complexity + 1) * GROUP_SIZE - 1}
  end
  return list
end

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

-- Appends a part for each stretch of a range that may match, from the position `from` on (nil: from its beginning). In
-- sets by due times (`by_due`) items of other ages are met, too.
local function add_parts(parts, selector, key, range, from, wanted, by_due)
  local first_age, last_age = selectors.age_range(selector)
  local by_rank = selectors.orders_by_rank(selector)
  if by_rank and (by_due or not first_age) then
    parts[#parts + 1] = {next = streams.read(key, math.max(range[1], from or 0), range[2], wanted)}
    return
  end
  for _, base in ipairs(group_starts(key, range[1], range[2])) do
    local low, high = base + (first_age or 0), base + (last_age or GROUP_SIZE - 1)
    local next_member
    if selector.order == 'newest' then
      next_member = streams.read_down(key, math.min(base - (from or -GROUP_SIZE), high), low, wanted)
    else
      next_member = streams.read(key, math.max((by_rank and 0 or base) + (from or 0), low), high, wanted)
    end
    parts[#parts + 1] = {next = next_member}
  end
end

-- The candidates of any selector in one class; `after` = {position, id} of the last one checked, or nil;
-- `wanted` = how many are probably needed; of those in the set `set`, if given. Positions are scores, or ages
-- (negative for newest first).
function candidates.merged(run, selector, class, after, wanted, set)
  local by_due = set and apart.is_by_due(set)
  local parts = {}
  for _, scope in ipairs(narrowest_scopes(run, selector, class, set)) do
    for _, range in ipairs(candidates.score_ranges(selector, class)) do
      add_parts(parts, selector, run.keys.ranked .. scope, range, after and after[1], wanted, by_due)
    end
  end
  return streams.merge(parts, function(part)
    local score, id = part.next()
    part.position, part.id = score and selectors.place_of(selector, score), id
  end)
end

return candidates
