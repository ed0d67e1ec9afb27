--[[
purpose:   Deletes edges by dependency id, by pair, or all of one item.
guarantee: Both ends of an edge go together and the blocked item's readiness with it.
args:      request fingerprint keep_ms events_max mode first second codes
           mode = id | pair | all; first, second = ids (second '' unless pair); codes = any of BIR
reply:     {number of edges deleted, first, second}
errors:    REQUEST_ID_REUSED
full:      deleting frees memory
--]]
-- @include clock
-- @include idempotency
-- @include unlink
-- @include events
-- @include serve

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local deleted = 0

-- Takes away edges that are stored at an item.
local function drop(id, edges)
  if not edges[1] then return end
  unlink(load(id), edges)
  deleted = #edges / 2
  for n = 1, #edges, 2 do
    emit(events_max, 'unlink', id, 'o', string.sub(edges[n], 2), 'c', string.sub(edges[n], 1, 1))
  end
end

if mode == 'all' then
  drop(first, redis.call('HGETALL', K_EDGES .. first))
else
  local from, to, wanted, found = first, second, codes, {}
  if mode == 'id' then
    local edge = redis.call('GET', K_DEPENDENCY .. first) or ''
    from, to, wanted = string.sub(edge, 2, 33), string.sub(edge, 34), string.sub(edge, 1, 1)
  end
  for code in string.gmatch(wanted, '.') do
    local value = redis.call('HGET', K_EDGES .. from, code .. to)
    if value then found[#found + 1], found[#found + 2] = code .. to, value end
  end
  drop(from, found)
end
serve(server_time(), events_max)
return remember(request, fingerprint, 'D', cmsgpack.pack({deleted, first, second}), keep_ms)
