-- @include candidates
-- @include positions
-- @include beneath
-- Yields candidates that are not below items held by others, best first. The search goes down from the roots, or an
-- ancestor, to where the best candidates are. An item held by another is passed over once, with all that is below it.

-- Walks the items of some classes, for an agent ('' for nobody), from `after` on (as in include/candidates.lua). The walk's
-- next() gives (position, id), positions as in include/positions.lua; nil at the end, or with `over` set when this run has done enough. Call mend() then, or
-- when enough was found. It merges two kinds of streams: children, each at its position, and bounds (`inner`), each for
-- what is below one child; when the turn of a bound comes, the items below that child are opened as another stream.
local function walk_tree(selector, classes, agent, now, after)
  local VISITS_MAX = 100 -- items that one run looks below
  local walk, streams, visits, from = {}, {}, 0, after and after[1] or 0
  local mends = {} -- bounds that turned out too low: {key, member, score or nil, aside = id of a held item}
  local own_id = agent ~= '' and redis.call('HGET', K_AGENTS, agent)
  local own, scope = own_id and load_item_partly(own_id), selector.ancestor

  -- By position; at equal ones, items that may have candidates below them come first, then the order is by id.
  local function precedes(one, other)
    if one.position == other.position and one.inner ~= other.inner then return one.inner end
    return comes_before(one.position, one.id, other.position, other.id)
  end

  -- Reads on; what stands after `last` is not asked for.
  local function read_on(stream)
    stream.score, stream.id = stream.next()
    stream.position = stream.id and position_of(selector, stream.class, stream.score)
    return stream.id and stream.score <= stream.last
  end

  -- Opens a stream of a set from `low` to `high`, if it has something up to `last`. Returns the set's first score.
  local function open(key, low, high, last, inner)
    local stream = {class = math.floor(low / CLASS_SIZE), key = key, last = last, inner = inner}
    stream.next = read_members(key, low, high, 1)
    local more, first = read_on(stream), stream.score
    if more and not inner and stream.position < from then
      stream.next = read_members(key, score_at(selector, stream.class, from), high, 1)
      more = read_on(stream)
    end
    if more then streams[#streams + 1] = stream end
    return first
  end

  -- Opens what stands below an item. Returns the first score of all.
  local function open_below(id, low, high, last)
    local child = open(K_RANKED .. 'p' .. id, low, high, last, false)
    local under = open(K_BENEATH .. id, low, high, last, true)
    return child and math.min(child, under or child) or under
  end

  -- What is below the child at whose bound a stream stands: opened, or noted to be put aside.
  local function look_beneath(stream)
    local id, low = string.sub(stream.id, 1, 32), band_of(stream.id) * PRIORITY_SIZE
    if id == own_id then return end -- was opened at the beginning, if it is within reach
    local mend = {key = stream.key, member = stream.id}
    local holder = live_holder(redis.call('HGET', K_ITEM .. id, 'h'), now)
    if holder and holder ~= agent then
      mend.aside, mend.score = id, stream.score + CLASS_SIZE
    else
      mend.score = open_below(id, low, low + PRIORITY_SIZE - 1, stream.last)
      if mend.score == stream.score then return end
    end
    mends[#mends + 1] = mend
  end

  function walk.next()
    while true do
      local at = 1
      for n = 2, #streams do
        if precedes(streams[n], streams[at]) then at = n end
      end
      local stream = streams[at]
      if not stream then return nil end
      local position, id = stream.position, stream.id
      if stream.inner then
        walk.over = visits >= VISITS_MAX and #mends > 0 -- a run that mends nothing would only be made again
        if walk.over then return nil end
        visits = visits + 1
        look_beneath(stream)
      end
      if not read_on(stream) then
        streams[at] = streams[#streams]
        streams[#streams] = nil
      end
      if not stream.inner then return position, id end
    end
  end

  -- Stores what was found of bounds.
  function walk.mend()
    for _, mend in ipairs(mends) do
      local id = mend.aside
      known_bounds[mend.member] = nil
      if id then
        redis.call('HSET', K_ITEM .. id, 'k', '1')
        if loaded[id] then loaded[id].k = '1' end
      end
      if mend.score then
        redis.call('ZADD', mend.key, mend.score, mend.member)
      else
        redis.call('ZREM', mend.key, mend.member)
      end
    end
  end

  local own_too = own and (not scope or is_below(own, scope)) and not is_shielded(own, agent, now, scope)
  for _, class in ipairs(classes) do
    for _, range in ipairs(score_ranges(selector, class)) do
      open_below(scope or '', range[1], range[2], range[2])
      if own_too then open_below(own_id, range[1], range[2], range[2]) end
    end
  end
  return walk
end
