-- The candidates of a class that are apart (modules/apart.lua) in sets with further conditions: one stream of the sets
-- that are open to a caller. A set is looked at when its best item may be next, so a search looks at as few of them as
-- it needs, however many there are.
local apart = require 'apart'
local classes = require 'classes'
local demands = require 'demands'
local fairness = require 'fairness'
local items = require 'items'
local remembered = require 'remembered'
local requirements = require 'requirements'
local resources = require 'resources'
local selectors = require 'selectors'
local streams = require 'streams'

local CLASS_SIZE = classes.CLASS_SIZE

local apart_sets = {}

local PAGE_MAX = 32 -- sets read at a time
local KNOWN_MAX = 500

-- The capabilities and the further conditions of a set, as {capabilities, conditions}.
local parts_of = remembered(KNOWN_MAX, function(set) return {string.match(set, '^([^|]*)|(.*)$')} end)

-- Whether there are such sets.
function apart_sets.exist(run)
  if run.has_sets == nil then
    run.has_sets = not (run.nothing_else and run.looked_for_sets) and redis.call('EXISTS', run.keys.apart) == 1
  end
  return run.has_sets
end

-- Whether a caller may have items of a set now: the agent, '' for nobody, false: whatever they demand. One that it
-- could have but for resources that are busy is passed over.
local function is_open(run, set, selector, agent, stream_of)
  local required, conditions = unpack(parts_of(set))
  if required ~= '' and not requirements.is_met(required, selector.capabilities) then return false end
  if not agent then return true end
  run.own_demands = run.own_demands or resources.of_agent(run, agent)
  if not resources.busy_node(run, demands.nodes_of_conditions(conditions), run.own_demands) then return true end
  if agent ~= '' then
    fairness.pass_set(run, conditions, function() return select(2, stream_of(set)()) end)
  end
  return false
end

-- A stream of the sets of a class: (score of the best item, set).
local function all_sets(run, class)
  local low, seen, page, at = class * CLASS_SIZE, 0, {}, 1
  return function()
    if at > #page then
      if seen > 0 and #page < 2 * PAGE_MAX then return nil end
      local high = low + CLASS_SIZE - 1
      page = redis.call('ZRANGEBYSCORE', run.keys.apart, low, high, 'WITHSCORES', 'LIMIT', seen, PAGE_MAX)
      at, seen = 1, seen + PAGE_MAX
      if not page[1] then return nil end
    end
    at = at + 2
    return tonumber(page[at - 1]), apart.set_of_member(page[at - 2])
  end
end

-- The items of a class for which something is reserved, as streams: their sets are not open, not even for them.
local function reserved_parts(run, selector, class, agent)
  local parts = {}
  if not agent then return parts end
  for id in pairs(fairness.reserved(run)) do
    local item = items.load(run, id)
    if item and item.as and item.class == class then
      local position = selectors.place_of(selector, apart.score_of(item))
      parts[#parts + 1] = {position = position, id = id, next = function() return nil end}
    end
  end
  return parts
end

-- The stream (position, id); `stream_of(set)` = that of one set. `by_rank`: positions are scores.
function apart_sets.stream(run, selector, class, agent, by_rank, stream_of)
  local next_set = all_sets(run, class)
  local score, set = next_set()
  local parts, taken = reserved_parts(run, selector, class, agent), nil
  return function()
    if taken then taken.position, taken.id = taken.next() end -- only now, as mostly the first item is enough
    local best
    for _, part in ipairs(parts) do
      local first = part.id and (not best or streams.comes_before(part.position, part.id, best.position, best.id))
      if first then best = part end
    end
    while set and not (by_rank and best and best.position < score) do
      if is_open(run, set, selector, agent, stream_of) then
        local part = {next = stream_of(set)}
        part.position, part.id = part.next()
        parts[#parts + 1] = part
        local first = part.id and (not best or streams.comes_before(part.position, part.id, best.position, best.id))
        if first then best = part end
      end
      score, set = next_set()
    end
    taken = best
    if best then return best.position, best.id end
  end
end

return apart_sets
