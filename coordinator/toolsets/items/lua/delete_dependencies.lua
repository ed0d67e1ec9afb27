--[[
purpose:   Deletes edges by dependency id, by pair, or all of one item.
guarantee: Both ends of an edge go together and the blocked item's readiness with it.
args:      request fingerprint keep_ms events_max mode first second codes
           mode = id | pair | all; first, second = ids (second '' unless pair); codes = any of BIR
reply:     {number of edges deleted, first, second}
errors:    REQUEST_ID_REUSED
--]]
-- @include clock
-- @include idempotency
-- @include graph
-- @include events
-- @include serve

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local deleted = 0

local function drop(near, code, far_id, value)
  unlink(near, code, load(far_id), value)
  deleted = deleted + 1
  emit(events_max, 'unlink', near.id, 'o', far_id, 'c', code)
end

if mode == 'all' then
  local it = load(first)
  if it then each_edge(first, function(code, other, value) drop(it, code, other, value) end) end
else
  local from, to, wanted = first, second, codes
  if mode == 'id' then
    local edge = redis.call('GET', K_DEPENDENCY .. first) or ''
    from, to, wanted = string.sub(edge, 2, 33), string.sub(edge, 34), string.sub(edge, 1, 1)
  end
  for code in string.gmatch(wanted, '.') do
    local value = redis.call('HGET', K_EDGES .. from, code .. to)
    if value then drop(load(from), code, to, value) end
  end
end
serve(server_time(), events_max)
return remember(request, fingerprint, 'D', cmsgpack.pack({deleted, first, second}), keep_ms)
