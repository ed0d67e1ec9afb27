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

-- The waiter that has waited longest for an item; nil: nobody waits for it.
local function longest_waiter(item, now)
  local agent, best = holder_above(item, now), nil -- whose alone it may be, nil for anybody's
  if agent == false then return nil end
  for _, scope in ipairs(scopes_of(item)) do
    for queue, selector in pairs(selectors_at(scope .. ':' .. item.class, now)) do
      comparisons = comparisons + 1
      if not none_before(queue, best and best.order or math.huge) and matches(item, selector) then
        local waiter = front_waiter(queue, agent, now)
        if waiter and (not best or waiter.order < best.order) then best = waiter end
      end
    end
  end
  return best
end
