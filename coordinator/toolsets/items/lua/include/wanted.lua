-- @include waiters
-- Which of the parked calls an item is for.

local compared = 0 -- how much of what is waited for this run has looked at

-- The selectors that calls wait for at a place, by queue. One answer per place.
local sought
local function wanted_at(place, now)
  if not sought[place] then
    local found, flat = {}, redis.call('HGETALL', K_WANTED .. place)
    compared = compared + #flat / 2
    for n = 1, #flat, 2 do
      if tonumber(string.sub(flat[n + 1], 1, 13)) > now then
        found[flat[n]] = cmsgpack.unpack(string.sub(flat[n + 1], 14))
      else
        redis.call('HDEL', K_WANTED .. place, flat[n])
      end
    end
    sought[place] = found
  end
  return sought[place]
end

-- Who has waited longest for an item, nil when nobody does.
local function first_for(it, now)
  local keeper, best = keeper_above(it, now), nil
  if keeper == false then return nil end
  for _, scope in ipairs(scopes(it)) do
    for queue, selector in pairs(wanted_at(scope .. ':' .. it.class, now)) do
      compared = compared + 1
      if not none_before(queue, best and best.order or math.huge) and matches(it, selector) then
        local waiter = front_waiter(queue, keeper, now)
        if waiter and (not best or waiter.order < best.order) then best = waiter end
      end
    end
  end
  return best
end
