-- The candidates of a class that are apart (apart.lua) in sets with further conditions: one stream of the sets
-- that are open to a caller. A set is looked at when its best item may be next, so a search looks at as few of them as
-- it needs, however many there are.
-- owns: none
local apart = require 'apart'
local classes = require 'classes'
local demands = require 'demands'
local fairness = require 'fairness'
local first_sets = require 'first_sets'
local items = require 'items'
local remembered = require 'remembered'
local requirements = require 'requirements'
local resources = require 'resources'
local selectors = require 'selectors'
local streams = require 'streams'

local CLASS_SIZE = classes.CLASS_SIZE

local apart_sets = {}

local FIRST, PAGE_MAX = first_sets.READ, 32 -- sets read at first, and at a time after these
local KNOWN_MAX = 500

-- The capabilities and the further conditions of a set, as {capabilities, conditions, nodes of these}.
local parts_of = remembered(KNOWN_MAX, function(set)
  local required, conditions = string.match(set, '^([^|]*)|(.*)$')
  return {required, conditions, demands.nodes_of_conditions(conditions)}
end)

-- Whether the caller of a search may have items of a set now. A set that it could have but for resources that are busy
-- is passed over.
local function is_open(run, search, set)
  local parts, agent = parts_of(set), search.agent
  local required, conditions = parts[1], parts[2]
  if not requirements.opens(required, search.selector) then return false end
  if not agent then return true end
  search.own_demands = search.own_demands or resources.of_agent(run, agent)
  if not resources.busy_node(run, parts[3], search.own_demands) then return true end
  if agent ~= '' then
    fairness.pass_set(run, conditions, function() return select(2, search.stream_of(set)()) end)
  end
  return false
end

local function read_page(run, search)
  local key, low, high = run.keys.apart, search.low, search.high
  search.page = redis.call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', 'LIMIT', search.seen, search.size)
end

-- Moves a search to the next set of its class: its `member` of the key apart, nil: there is none; `place` of its best
-- item.
local function advance(run, search)
  local at = search.at + 2
  if at > 2 * search.size then
    search.seen, search.size, at = search.seen + search.size, PAGE_MAX, 1
    read_page(run, search)
  end
  local page = search.page
  local place = tonumber(page[at + 1])
  search.at, search.place = at, place
  search.member = place and place <= search.high and page[at] or nil
end

-- Adds the items of a class for which something is reserved, as streams: their sets are not open, not even for them.
local function add_reserved(run, parts, selector, class)
  for id in pairs(fairness.reserved(run)) do
    local item = items.load(run, id)
    if item and item.as and item.class == class then
      local position = selectors.place_of(selector, apart.score_of(item))
      parts[#parts + 1] = {position = position, id = id, next = function() return nil end}
    end
  end
end

-- The best item of a set as the beginning of its stream.
local function best_of(run, class, set)
  local low, key = class * CLASS_SIZE, run.keys.ranked .. apart.scope(set, '*')
  local two = redis.call('ZRANGEBYSCORE', key, low, low + CLASS_SIZE - 1, 'WITHSCORES', 'LIMIT', 0, 2)
  first_sets.note_items(run, key, two)
  return {position = tonumber(two[2]), id = two[1], set = set}
end

local function comes_before(part, other)
  return not other or streams.comes_before(part.position, part.id, other.position, other.id)
end

-- The part of a search with the next item; nil: there are no more.
local function first_part(run, search)
  local parts, by_rank, first = search.parts, search.by_rank, nil
  for n = 1, #parts do
    local part = parts[n]
    if part.id and comes_before(part, first) then first = part end
  end
  local known = first and by_rank and classes.place_of(search.class, first.position, first.id)
  while search.member and not (known and known < search.place) do
    local set, unsure = apart.set_of_member(search.member), known == search.place
    if unsure or is_open(run, search, set) then
      local part
      if search.whole then
        part = best_of(run, search.class, set)
      else
        part = {next = search.stream_of(set)}
        part.position, part.id = part.next()
      end
      part.unsure = unsure and set
      parts[#parts + 1] = part
      if part.id and comes_before(part, first) then
        first = part
        known = search.whole and search.place or by_rank and classes.place_of(search.class, part.position, part.id)
      end
    end
    advance(run, search)
  end
  return first
end

-- The stream (position, id) of the items of sets and of some other ones, `parts` of it (streams.lua), for a
-- caller: the agent, '' for nobody, false: whatever items demand; `stream_of(set)` = that of one set. `by_rank`:
-- positions are scores; `whole`: all items of sets match, too. Of sets whose best items are at the same place one is
-- looked at only if its best item comes first.
function apart_sets.stream(run, parts, selector, class, agent, by_rank, whole, stream_of)
  local low, high = classes.places(class)
  local search = {
    selector = selector, class = class, agent = agent, by_rank = by_rank, whole = whole, stream_of = stream_of,
    low = low, high = high, page = first_sets.list(run), at = -1, seen = 0, size = FIRST, parts = parts,
  }
  if agent then add_reserved(run, parts, selector, class) end
  local page = search.page -- the first sets of all classes, mostly those of this one
  if not (page and page[1] and tonumber(page[2]) >= low) then read_page(run, search) end
  advance(run, search)
  local best
  return function()
    if best then -- only now, as mostly the first item is enough
      if best.set then
        best.next, best.set = stream_of(best.set), nil
        best.next()
      end
      best.position, best.id = best.next()
    end
    best = first_part(run, search)
    while best and best.unsure do
      if is_open(run, search, best.unsure) then
        best.unsure = false
      else
        best.id = nil
        best = first_part(run, search)
      end
    end
    if best then return best.position, best.id end
  end
end

return apart_sets
