--[[
purpose:   Counts a project's items, and takes away the counts of claims that have ended.
guarantee: O(log n) at any number of items. Each ended claim is reported to one caller only.
args:      none
reply:     {now, counts by role code, creation of the oldest item that is ready in the queue or 0, ended claims as
           fields and numbers in turn: see include/holds.lua}
errors:    none
full:      it only deletes
--]]
-- @include classes
local key, counts = K_RANKED .. '*', {}
for role = QUEUE, BLOCKED do
  counts[role + 1] = redis.call('ZCOUNT', key, role * STATES * CLASS_SIZE, (role + 1) * STATES * CLASS_SIZE - 1)
end

-- Ready items stand by priority and complexity first: the first of each such group is its oldest.
local first, last, oldest = (QUEUE * STATES + READY) * CLASS_SIZE, (QUEUE * STATES + READY + 1) * CLASS_SIZE - 1, nil
while first <= last do
  local score = redis.call('ZRANGEBYSCORE', key, first, last, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if not score then break end
  score = tonumber(score)
  oldest = math.min(oldest or created_of(score), created_of(score))
  first = (math.floor(score / GROUP_SIZE) + 1) * GROUP_SIZE
end

local ended = redis.call('HGETALL', K_HOLDS)
if ended[1] then redis.call('DEL', K_HOLDS) end
return cmsgpack.pack({server_time(), counts, oldest or 0, ended})
