-- @include item
-- Abandoned items: nobody holds them, and somebody has left them in the middle (`is_left` in include/classes.lua).
--   K_ABANDONED  their ids by when they were left (ms); those that wait for a dependency stand 2 ^ 42 further back

local abandoned_noted = false -- whether this run has entered any

-- Enters an item into K_ABANDONED, or takes it out, as its present state says.
local function note_abandoned(item)
  if not item.fence then return end
  if is_held(item) or not is_left(item, item.role) then return redis.call('ZREM', K_ABANDONED, item.id) end
  local known = redis.call('ZSCORE', K_ABANDONED, item.id)
  local since = known and tonumber(known) % 2 ^ 42 or item.holder and item.expires or server_time()
  redis.call('ZADD', K_ABANDONED, whole(since + (item.nb and 2 ^ 42 or 0)), item.id)
  abandoned_noted = true
end
