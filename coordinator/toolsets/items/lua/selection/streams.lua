-- Streams: iterators over items with their positions, from one sorted set or from several in one order. At equal
-- positions items are ordered by id, in either direction: that is the order in which one call has created them.
-- owns: none
local streams = {}

local PAGE_MAX = 32 -- members read at a time

-- A stream of the members of a range of scores: (score, id). The first page has as many as wanted: matches are
-- likely at the beginning.
function streams.read(key, low, high, wanted)
  local page, at, seen, size, left = {}, 1, 0, math.min(wanted, PAGE_MAX), true
  return function()
    if at > #page then
      if not left then return nil end
      page, at = redis.call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', 'LIMIT', seen, size), 1
      left = #page == 2 * size
      seen, size = seen + size, math.min(4 * size, PAGE_MAX)
    end
    at = at + 2
    return tonumber(page[at - 1]), page[at - 2]
  end
end

-- The same of two sets in one order, for less than `streams.merge`.
function streams.read_both(one_key, other_key, low, high, wanted)
  local next_one, next_other = streams.read(one_key, low, high, wanted), streams.read(other_key, low, high, wanted)
  local one, one_id = next_one()
  if not one then return next_other end
  local other, other_id = next_other()
  local taken -- by the last call: read on only now, as mostly the first item is enough
  return function()
    if taken == one_id then one, one_id = next_one() elseif taken then other, other_id = next_other() end
    local first = one and not (other and streams.comes_before(other, other_id, one, one_id))
    taken = first and one_id or other_id
    if first then return one, one_id end
    return other, other_id
  end
end

-- The first `stop` values of a list of members and scores, by falling score: members of equal scores by rising id.
local function by_falling_score(flat, stop)
  local page, from = {}, 1
  while from < stop do
    local to = from
    while to + 3 <= stop and flat[to + 3] == flat[from + 1] do to = to + 2 end
    for n = to, from, -2 do page[#page + 1], page[#page + 2] = flat[n], flat[n + 1] end
    from = to + 2
  end
  return page
end

-- The same from the highest score down.
function streams.read_down(key, high, low, wanted)
  local page, at, size, ties = {}, 1, math.min(wanted, PAGE_MAX), nil
  local function refill()
    local flat = redis.call('ZREVRANGEBYSCORE', key, high, low, 'WITHSCORES', 'LIMIT', 0, size)
    local last, stop = flat[#flat], #flat
    if stop < 2 * size then
      high = nil
    else -- there may be more of the last score: these are left to the next page, or read separately
      while stop > 0 and flat[stop] == last do stop = stop - 2 end
      high = stop > 0 and last or '(' .. last
      ties = stop == 0 and streams.read(key, last, last, size) or nil
      size = math.min(4 * size, PAGE_MAX)
    end
    page, at = by_falling_score(flat, stop), 1
  end
  return function()
    while true do
      if ties then
        local score, id = ties()
        if id then return score, id end
        ties = nil
      elseif at < #page then
        at = at + 2
        return tonumber(page[at - 1]), page[at - 2]
      elseif high then
        refill()
      else
        return nil
      end
    end
  end
end

-- Whether an item comes before another one; ids break ties.
function streams.comes_before(position, id, other_position, other_id)
  if position ~= other_position then return position < other_position end
  return id < other_id
end

-- One stream (position, id) of several parts; step(part) sets `position` and `id` of a part to its next item, id = nil
-- at its end.
function streams.merge(parts, step)
  local best
  for _, part in ipairs(parts) do step(part) end
  return function()
    if best then step(best) end -- only now, as mostly the first item is enough
    best = nil
    for _, part in ipairs(parts) do
      local first = part.id and (not best or streams.comes_before(part.position, part.id, best.position, best.id))
      if first then best = part end
    end
    if not best then return nil end
    return best.position, best.id
  end
end

return streams
