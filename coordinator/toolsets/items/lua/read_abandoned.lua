--[[
purpose:   Counts a project's abandoned items, and lists those that have been so for longest.
guarantee: O(log n + limit + late), where late = claims that have expired but were not put back yet, at most 500 of which
           are looked at; writes nothing.
args:      limit
reply:     {now, how many can be taken over, how many wait for a dependency, when the longest abandoned of the former was
           left (ms) or 0, list of {id, when it was left, whether it waits for a dependency}}
errors:    none
--]]
-- @include clock
-- @include claims

local LATE_MAX, WAITS = 500, 2 ^ 42 -- WAITS as in include/abandoned.lua
local now, most = server_time(), tonumber(limit)
local list, counts, oldest = {}, {0, 0}, 0

-- The longest abandoned of those that wait for a dependency or do not: they stand in K_ABANDONED from `base` on.
local function add_listed(waits, base)
  local n = waits and 2 or 1
  counts[n] = redis.call('ZCOUNT', K_ABANDONED, base, base + WAITS - 1)
  local flat = redis.call('ZRANGEBYSCORE', K_ABANDONED, base, base + WAITS - 1, 'WITHSCORES', 'LIMIT', 0, most + 1)
  for at = 1, #flat, 2 do list[#list + 1] = {flat[at], flat[at + 1] - base, waits} end
end

add_listed(false, 0)
add_listed(true, WAITS)
local agents = redis.call('ZRANGEBYSCORE', K_LEASES, '-inf', now, 'LIMIT', 0, LATE_MAX)
for _, id in ipairs(agents[1] and redis.call('HMGET', K_AGENTS, unpack(agents)) or {}) do
  local item = id and load_item_partly(id)
  if item and is_held(item) and is_left(item, item.role) then
    local n = item.nb and 2 or 1
    counts[n] = counts[n] + 1
    list[#list + 1] = {id, item.expires, item.nb ~= nil}
  end
end

table.sort(list, function(one, other)
  if one[3] ~= other[3] then return other[3] end
  if one[2] ~= other[2] then return one[2] < other[2] end
  return one[1] < other[1]
end)
if list[1] and not list[1][3] then oldest = list[1][2] end
for n = #list, most + 1, -1 do list[n] = nil end
return cmsgpack.pack({now, counts[1], counts[2], oldest, list})
