--[[
purpose:   Deletes edges by dependency id, by pair, or all of one item.
guarantee: Both ends of an edge are deleted and the blocked item's readiness is updated in one step. For an item with
           very many edges it takes several runs; the progress is recorded, so any process can go on from there.
args:      request fingerprint keep_ms events_max mode first second codes before
           mode = id | pair | all; first, second = ids (second '' unless pair); codes = any of BIR;
           before = how many edges earlier runs have deleted
reply:     {edges deleted, those of earlier runs included; first; second; whether these are all}
errors:    REQUEST_ID_REUSED UNSETTLED
full:      deleting frees memory
--]]
-- @include clock
-- @include idempotency
-- @include unlink
-- @include events
-- @include settle

local stored, phase, refused = recall(request, fingerprint)
if refused then return refused end
if stored and phase == 'D' then return {stored} end
local now = server_time()
if not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end

local deleted, done = tonumber(before), true
if stored then deleted, first, second = unpack(cmsgpack.unpack(stored)) end

-- Takes away edges that are stored at an item.
local function drop(id, edges)
  if not edges[1] then return end
  remove_edges(load_item(id), edges)
  deleted = deleted + #edges / 2
  for n = 1, #edges, 2 do
    emit(events_max, 'unlink', id, 'o', string.sub(edges[n], 2), 'c', string.sub(edges[n], 1, 1))
  end
end

if mode == 'all' then
  drop(first, edges_to_remove(first))
  done = redis.call('EXISTS', K_EDGES .. first) == 0
else
  local from, to, wanted, edges = first, second, codes, {}
  if mode == 'id' then
    local edge = redis.call('GET', K_DEPENDENCY .. first) or '' -- code .. from .. to
    from, to, wanted = string.sub(edge, 2, 33), string.sub(edge, 34), string.sub(edge, 1, 1)
  end
  for code in string.gmatch(wanted, '.') do
    local value = redis.call('HGET', K_EDGES .. from, code .. to)
    if value then edges[#edges + 1], edges[#edges + 2] = code .. to, value end
  end
  drop(from, edges)
end
serve_waiters(now, events_max)
local reply = cmsgpack.pack({deleted, first, second, done})
return with_debts(remember(request, fingerprint, done and 'D' or 'P', reply, keep_ms))
