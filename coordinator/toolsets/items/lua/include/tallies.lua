-- @include ranges
-- Counts of an item's direct children from the sizes of the sets they are ranked in.

-- {queue, work, review, terminal, blocked}, and how many of all are in a held class.
local function tally(id)
  local counts, held, keys = {0, 0, 0, 0, 0}, 0, {}
  for n = 1, #ALL_CLASSES do keys[n] = index_key('p' .. id, string.sub(ALL_CLASSES, n, n)) end
  if redis.call('EXISTS', unpack(keys)) == 0 then return counts, 0 end
  for n, key in ipairs(keys) do
    local class, size = string.sub(ALL_CLASSES, n, n), redis.call('ZCARD', key)
    local role = role_of(class)
    counts[role + 1] = counts[role + 1] + size
    if class >= 'A' and class <= 'Z' then held = held + size end
  end
  return counts, held
end

-- {active, expired, unclaimed}. `late` = by parent, how many of the held children have a claim that
-- expired and was not put back yet.
local function claim_tally(id, counts, held, late)
  local all = counts[1] + counts[2] + counts[3] + counts[4] + counts[5]
  local expired = tonumber(redis.call('HGET', K_LAPSED, 'p' .. id) or 0)
  local active = held - (late[id] or 0)
  return {active, expired + held - active, all - held - expired}
end
