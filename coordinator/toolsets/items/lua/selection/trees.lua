-- Walks: streams of candidates that are not below items held by others, best first. A walk descends from the roots, or
-- an ancestor, to the best candidates. An item held by another agent, or whose budget is spent, is skipped with its
-- whole subtree. A walk merges two kinds of streams of a set: children, each at its position, and bounds (`inner`),
-- each for the subtree of one child (bounds.lua). When a bound comes first, the items below that child are
-- opened as another stream. Bounds that are too low, or belong to items that are skipped, are corrected at the end.
-- owns: none
local agents = require 'agents'
local apart = require 'apart'
local bounds = require 'bounds'
local budgets = require 'budgets'
local candidates = require 'candidates'
local classes = require 'classes'
local item_record = require 'item_record'
local items = require 'items'
local requirements = require 'requirements'
local selectors = require 'selectors'
local streams = require 'streams'

local CLASS_SIZE, PRIORITY_SIZE = classes.CLASS_SIZE, classes.PRIORITY_SIZE

local trees = {}

local SHARED_ALONE = {requirements.SHARED}
local VISITS_MAX = 100 -- items whose children one call opens

-- By position; at equal ones, items that may have candidates below them come first, then by id.
local function precedes(one, other)
  if one.position == other.position and one.inner ~= other.inner then return one.inner end
  return streams.comes_before(one.position, one.id, other.position, other.id)
end

-- Advances a stream. Returns whether it has more up to `last`.
local function read_on(walk, stream)
  stream.score, stream.id = stream.next()
  stream.position = stream.id and selectors.position_of(walk.selector, stream.class, stream.score)
  return stream.id and stream.score <= stream.last
end

-- Opens a stream of a set from `low` to `high`, if it has members up to `last`; `above` = the parent if it is one of
-- bounds. Returns the set's first score.
local function open(walk, key, low, high, last, above)
  local inner = above ~= nil
  local stream = {class = math.floor(low / CLASS_SIZE), last = last, inner = inner, above = above}
  stream.next = streams.read(key, low, high, 1)
  local more, first = read_on(walk, stream), stream.score
  if more and not inner and stream.position < walk.from then
    stream.next = streams.read(key, selectors.score_at(walk.selector, stream.class, walk.from), high, 1)
    more = read_on(walk, stream)
  end
  if more then walk.inputs[#walk.inputs + 1] = stream end
  return first
end

-- Opens the streams below an item. Returns the lowest score.
local function open_below(run, walk, id, low, high, last)
  local child = open(walk, run.keys.ranked .. 'p' .. id, low, high, last)
  local under = open(walk, run.keys.beneath .. id, low, high, last, id)
  return child and math.min(child, under or child) or under
end

-- Opens the streams below the child at a stream's current bound, or marks the child to be put aside.
local function look_beneath(run, walk, stream)
  local id, low = string.sub(stream.id, 1, 32), bounds.band_of(stream.id) * PRIORITY_SIZE
  if id == walk.own_id then return end -- opened at the beginning, if available
  local mend = {above = stream.above, member = stream.id}
  local holder = item_record.live_holder(run, redis.call('HGET', run.keys.item .. id, 'w'))
  if holder and holder ~= walk.agent or budgets.is_spent(run, id) then
    mend.aside, mend.score = id, stream.score + CLASS_SIZE
  else
    mend.score = open_below(run, walk, id, low, low + PRIORITY_SIZE - 1, stream.last)
    if mend.score == stream.score then return end
  end
  walk.mends[#walk.mends + 1] = mend
end

-- The number of the first stream; nil if there is none.
local function next_input(inputs)
  local at = inputs[1] and 1
  for n = 2, #inputs do
    if precedes(inputs[n], inputs[at]) then at = n end
  end
  return at
end

-- The next candidate of a walk (position, id), positions as in selectors.lua; nil at the end, or with walk.over
-- set at this call's limit.
function trees.next(run, walk)
  local inputs = walk.inputs
  while true do
    local at = next_input(inputs)
    if not at then return nil end
    local stream = inputs[at]
    local position, id = stream.position, stream.id
    if stream.inner then
      walk.over = walk.visits >= VISITS_MAX and #walk.mends > 0 -- a call without corrections would only be repeated
      if walk.over then return nil end
      walk.visits = walk.visits + 1
      look_beneath(run, walk, stream)
    end
    if not read_on(walk, stream) then
      inputs[at] = inputs[#inputs]
      inputs[#inputs] = nil
    end
    if not stream.inner then return position, id end
  end
end

-- Begins a walk of the items of some classes for a search (selection.lua), from `after` on (as in candidates.lua).
-- Items of sets are in no index of what is below others: they are met one by one. The fields of a walk: selector,
-- agent, from = the position to begin at, own_id = the item that the agent holds, inputs = streams, mends = corrections
-- for `bounds.mend` at the end, visits, over.
function trees.start(run, search, class_list, after)
  local selector, agent = search.selector, search.agent
  local own_id, scope = agent ~= '' and agents.item_of(run, agent), selector.ancestor
  local own = own_id and items.load(run, own_id)
  local walk = {selector = selector, agent = agent, own_id = own_id, from = after and after[1] or 0, inputs = {},
    mends = {}, visits = 0, over = false}
  local own_too = own and not own.bx and (not scope or selectors.is_below(run, own, scope))
    and not selectors.is_shielded(run, own, agent, scope)
  for _, class in ipairs(class_list) do
    for _, range in ipairs(candidates.score_ranges(selector, class)) do
      for _, set in ipairs(search.sets or SHARED_ALONE) do
        if set ~= requirements.SHARED then
          open(walk, run.keys.ranked .. apart.scope(set, '*'), range[1], range[2], range[2])
        else
          open_below(run, walk, scope or '', range[1], range[2], range[2])
          if own_too then open_below(run, walk, own_id, range[1], range[2], range[2]) end
        end
      end
    end
  end
  return walk
end

return trees
