-- @include handover
-- Decides which of the parked calls gets an item.

local comparisons = 0 -- of items with what is waited for, in this run

local known_selectors -- by place, to be forgotten ({}) when calls have come or gone

-- The selectors that calls wait for at a place, by queue.
local function selectors_at(place, now)
  if not known_selectors[place] then
    local found, flat = {}, redis.call('HGETALL', K_WANTED .. place)
    comparisons = comparisons + #flat / 2
    for n = 1, #flat, 2 do
      if tonumber(string.sub(flat[n + 1], 1, 13)) > now then
        found[flat[n]] = cmsgpack.unpack(string.sub(flat[n + 1], 14))
      else
        redis.call('HDEL', K_WANTED .. place, flat[n])
      end
    end
    known_selectors[place] = found
  end
  return known_selectors[place]
end

-- The places that an item leads to.
local function places_around(item)
  local scopes, above, list, class = scopes_of(item), item.pa, {}, item.role * STATES
  while above do
    scopes[#scopes + 1] = 'a' .. above
    above = redis.call('HGET', K_ITEM .. above, 'pa')
  end
  for _, scope in ipairs(scopes) do
    list[#list + 1] = scope .. ':' .. class
    if item.class ~= class then list[#list + 1] = scope .. ':' .. QUEUE * STATES end -- abandoned
  end
  return list
end

-- The waiter that has waited longest for an item; nil: nobody waits for it.
local function longest_waiter(item, now)
  local best
  for _, place in ipairs(places_around(item)) do
    for queue, selector in pairs(selectors_at(place, now)) do
      comparisons = comparisons + 1
      if not none_before(queue, best and best.order or math.huge) and matches(item, selector) then
        local agent = holder_above(item, now, selector.parent or selector.ancestor) -- whose alone it may be, nil for anybody's
        local waiter = agent ~= false and front_waiter(queue, agent, now)
        if waiter and (not best or waiter.order < best.order) then
          best, waiter.selector = waiter, selector
        end
      end
    end
  end
  return best
end
