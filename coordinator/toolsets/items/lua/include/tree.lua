-- @include runs
-- @include beneath
-- Candidates in the order of rank that are not below what others hold, best first, and only these: from the roots,
-- or an ancestor, down to where the best ones are. What others hold is passed over as a whole, and only once.

local VISITS_MAX = 100 -- items that one run looks below

-- Of what stands at one score: first what may have more of it below, then by id.
local function precedes(one, other)
  if one.score ~= other.score then return one.score < other.score end
  if one.inner ~= other.inner then return one.inner end
  return one.id < other.id
end

-- `after` as in include/runs.lua. A walk: next() gives (position, id), nil at the end or when it is `over` for this
-- run; mend() has to be called then, or when enough was found.
local function walk_tree(selector, class, agent, now, after)
  local walk, streams, mends, visits, from = {}, {}, {}, 0, after and after[1] or 0
  local own = agent ~= '' and redis.call('HGET', K_AGENTS, agent)
  local mine = own and load_item_partly(own)

  -- Reads on; what stands after `last` is not asked for.
  local function read_on(stream)
    stream.score, stream.id = stream.next()
    return stream.id and stream.score <= stream.last
  end

  -- A stream of one set; returns its first score, asked for or not.
  local function open(key, low, high, last, inner)
    local stream = {key = key, last = last, inner = inner, next = read_members('ZRANGEBYSCORE', key, low, high, 1)}
    local more, first = read_on(stream), stream.score
    if more and not inner and first < from then
      stream.next = read_members('ZRANGEBYSCORE', key, from, high, 1)
      more = read_on(stream)
    end
    if more then streams[#streams + 1] = stream end
    return first
  end

  local function open_below(id, low, high, last)
    local child = open(K_RANKED .. 'p' .. id, low, high, last, false)
    local under = open(K_BENEATH .. id, low, high, last, true)
    return child and math.min(child, under or child) or under
  end

  local function look_beneath(stream)
    local id, low = string.sub(stream.id, 1, 32), (string.byte(stream.id, 33) - 48) * PRIORITY_SIZE
    if id == own then return end -- was opened at the beginning, if it is within reach
    local mend = {key = stream.key, member = stream.id}
    local claim = redis.call('HGET', K_ITEM .. id, 'h')
    if claim and #claim > 4 and struct.unpack('>I6', claim, 5) > now and string.sub(claim, HOLDER_AT) ~= agent then
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
      local score, id = stream.score, stream.id
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
      if not stream.inner then return score, id end
    end
  end

  -- Writes down what was found.
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

  for _, range in ipairs(score_ranges(selector, class)) do
    open_below(selector.ancestor or '', range[1], range[2], range[2])
    if mine and not is_shielded(mine, agent, now) then
      open_below(own, range[1], range[2], range[2])
    end
  end
  return walk
end

-- A walk, where that is a way to what is asked for: role, priority, complexity, ancestor, in the order of rank.
local function start_tree_walk(selector, class, agent, now, after)
  local others = selector.parent or selector.type or selector.tags or age_range(selector) or selector.changed_from or selector.changed_to
  return orders_by_rank(selector) and not others and bounds_complete() and walk_tree(selector, class, agent, now, after) or nil
end
