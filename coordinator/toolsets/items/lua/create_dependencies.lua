--[[
purpose:   Creates dependency edges, all or none.
guarantee: No duplicate (from, to, type), no self-edge, no cycle among blocking edges (seed 004 rules,
           over the whole batch), and every blocked item's readiness is right in the same step.
args:      request fingerprint keep_ms events_max edges
           edges = packed list of {dependency id, from, to, code B|I|R, threshold mark}
reply:     {failures {position, reason, item}, ids}; no failures when all were created
errors:    REQUEST_ID_REUSED
--]]
-- @include clock
-- @include idempotency
-- @include levels
-- @include events

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local list = cmsgpack.unpack(edges)
local failures, batch = {}, {}
local try, keep = level_check()
local MOST_EDGES, ends = 2000, {} -- of one item: they are all looked at when its role changes

-- The item with what an edge is about, or nil.
local function end_of_edge(id)
  if loaded[id] then return loaded[id] end
  local f = redis.call('HMGET', K_ITEM .. id, 'w', 'pa', 'g', 'y', 'nb', 'lv')
  if not f[1] then return nil end
  local it = {id = id, partial = true, pa = f[2] or nil, g = f[3] or nil, y = f[4] or nil}
  it.nb, it.lv, loaded[id] = f[5] or nil, f[6] or nil, it
  stand(it, f[1])
  return it
end

local function is_full(id)
  ends[id] = (ends[id] or edges_stored(id)) + 1
  return ends[id] > MOST_EDGES
end

local function problem(from, to, code)
  if from == to then return 'self', from end
  for _, id in ipairs({from, to}) do
    if not end_of_edge(id) then return absent(id), id end
    if is_full(id) then return 'too_many_edges', id end
  end
  local key = code .. from .. to
  if batch[key] then return 'duplicate', to end
  if edges_stored(from) > 0 and redis.call('HEXISTS', K_EDGES .. from, code .. to) == 1 then return 'duplicate', to end
  batch[key] = true
  if code == 'B' and not try(from, to) then return 'cycle', to end
  if code == 'I' and not try(to, from) then return 'cycle', to end
end

for n, edge in ipairs(list) do
  local reason, item = problem(edge[2], edge[3], edge[4])
  if reason then failures[#failures + 1] = {n - 1, reason, item} end
end

if #failures == 0 then
  local waits = {}
  keep()
  store_edges(list)
  for _, edge in ipairs(list) do
    local _, from, to, code, needed = unpack(edge)
    if code ~= 'R' then
      local blocker, blocked = loaded[from], loaded[to]
      if code == 'I' then blocker, blocked = blocked, blocker end
      if not satisfies(blocker.role, tonumber(needed) or TERMINAL) then waits[blocked] = (waits[blocked] or 0) + 1 end
    end
    emit(events_max, 'link', from, 'o', to, 'c', code)
  end
  add_blockers(waits)
  for _, it in pairs(loaded) do save(it) end
end
local ids = {}
for n, edge in ipairs(list) do ids[n] = {edge[1], edge[2], edge[3]} end
return remember(request, fingerprint, 'D', cmsgpack.pack({failures, ids}), keep_ms)
