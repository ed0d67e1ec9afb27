-- The candidates of a class that are apart (modules/apart.lua) in sets with further conditions: one stream of the sets
-- that are open to a caller. A set is opened when its best item is next, so a search looks at as few of them as
-- it needs, however many there are.
local apart = require 'apart'
local classes = require 'classes'
local requirements = require 'requirements'
local streams = require 'streams'

local CLASS_SIZE = classes.CLASS_SIZE

local apart_sets = {}

local PAGE_MAX = 32 -- sets read at a time

-- Whether there are such sets.
function apart_sets.exist(run)
  if run.nothing_else then return false end
  if run.has_sets == nil then run.has_sets = redis.call('EXISTS', run.keys.apart) == 1 end
  return run.has_sets
end

-- Whether a caller with these capabilities may have items of a set.
local function is_open(set, capabilities)
  local required = string.match(set, '^[^|]*')
  return required == '' or requirements.is_met(required, capabilities)
end

-- A stream of the open sets of a class: (score of the best item, set).
local function open_sets(run, selector, class)
  local low, seen, page, at = class * CLASS_SIZE, 0, {}, 1
  return function()
    while true do
      if at > #page then
        if seen > 0 and #page < 2 * PAGE_MAX then return nil end
        local high = low + CLASS_SIZE - 1
        page = redis.call('ZRANGEBYSCORE', run.keys.apart, low, high, 'WITHSCORES', 'LIMIT', seen, PAGE_MAX)
        at, seen = 1, seen + PAGE_MAX
        if not page[1] then return nil end
      end
      local set, score = apart.set_of_member(page[at]), tonumber(page[at + 1])
      at = at + 2
      if is_open(set, selector.capabilities) then return score, set end
    end
  end
end

-- The stream (position, id); `stream_of(set)` = that of one set. `by_rank`: positions are scores.
function apart_sets.stream(run, selector, class, by_rank, stream_of)
  local next_set = open_sets(run, selector, class)
  local score, set = next_set()
  local parts, taken = {}, nil
  return function()
    if taken then taken.position, taken.id = taken.next() end -- only now, as mostly the first item is enough
    local best
    for _, part in ipairs(parts) do
      local first = part.id and (not best or streams.comes_before(part.position, part.id, best.position, best.id))
      if first then best = part end
    end
    while set and not (by_rank and best and best.position < score) do
      local part = {next = stream_of(set)}
      part.position, part.id = part.next()
      parts[#parts + 1] = part
      local first = part.id and (not best or streams.comes_before(part.position, part.id, best.position, best.id))
      if first then best = part end
      score, set = next_set()
    end
    taken = best
    if best then return best.position, best.id end
  end
end

return apart_sets
