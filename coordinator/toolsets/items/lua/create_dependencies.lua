--[[
purpose:   Creates dependency edges, all or none.
guarantee: No duplicate (from, to, type), no self-edge, no cycle among blocking edges (seed 004 rules, over the whole
           batch). The readiness of every blocked item is updated in the same step, or recorded there as a debt.
args:      request fingerprint keep_ms events_max edges cyclic
           edges = packed list of {dependency id, from, to, code B|I|R, threshold mark}; cyclic = packed list of
           the positions of edges that the caller knows to close a cycle
reply:     {failures {position, reason, end}, ids, far}; no failures if all were created. end = the end that is the
           cause (from or to), else ''. far = {}; or {{position, blocker, blocked, levels of both}} if no edge was
           created because one needs a large repair of levels. Then failures covers the edges before it, and the
           caller makes the repair in slices (shift_levels.lua) and calls again
errors:    REQUEST_ID_REUSED
--]]
-- @include clock
-- @include idempotency
-- @include levels
-- @include blockers
-- @include events

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local list = cmsgpack.unpack(edges)
local failures, batch, known_cyclic, far = {}, {}, {}, nil -- batch: edges seen, by code and ends
for _, position in ipairs(cmsgpack.unpack(cyclic)) do known_cyclic[position] = true end
local try_edge, keep_levels = level_check()
local ITEM_EDGES_MAX = 600 -- of one item: they are all looked at when its role changes
local edge_counts = {} -- by item, with those of this batch

-- An item with the fields that edges are about, or nil.
local function load_end(id)
  local values = redis.call('HMGET', K_ITEM .. id, 'w', 'pa', 'g', 'y', 'nb', 'lv', 'h', 'ra', 'u')
  if not values[1] then return nil end
  local item = {
    id = id, partial = true, score = 0, class = 0, role = 0,
    pa = values[2] or nil, g = values[3] or nil, y = values[4] or nil, nb = values[5] or nil, lv = values[6] or nil,
    ra = values[8] or nil, u = values[9] or nil,
  }
  loaded[id] = item
  unpack_stored(item, values[1], values[7])
  return item
end

-- Why an item cannot have one more edge; counts it where it can.
local function end_problem(id)
  if not (loaded[id] or load_end(id)) then return absence_reason(id) end
  local count = (edge_counts[id] or edges_stored(id)) + 1
  edge_counts[id] = count
  return count > ITEM_EDGES_MAX and 'too_many_edges'
end

local function closes_cycle(position, blocker, blocked)
  if known_cyclic[position] then return true end
  local fits, level, other_level = try_edge(blocker, blocked)
  if fits == nil then far = {{position, blocker, blocked, level, other_level}} end
  return fits == false
end

-- Why there can be no such edge, and which end is the cause, '' where it is the edge itself.
local function problem(position, from, to, code)
  local resolved = string.sub(from, 1, 1) ~= '?' -- two prefixes that mean nothing look alike
  if from == to and resolved then return 'self', '' end
  local reason = end_problem(from)
  if reason then return reason, 'from' end
  reason = end_problem(to)
  if reason then return reason, 'to' end
  local key = code .. from .. to
  if batch[key] then return 'duplicate', '' end
  if edges_stored(from) > 0 and redis.call('HEXISTS', K_EDGES .. from, code .. to) == 1 then return 'duplicate', '' end
  batch[key] = true
  if code == 'B' and closes_cycle(position, from, to) then return 'cycle', '' end
  if code == 'I' and closes_cycle(position, to, from) then return 'cycle', '' end
end

local ids = {}
for n, edge in ipairs(list) do
  local reason, cause = problem(n - 1, edge[2], edge[3], edge[4])
  if far then
    keep_levels() -- what is mended needs no repair when it comes again
    return cmsgpack.pack({failures, {}, far})
  end
  if reason then failures[#failures + 1] = {n - 1, reason, cause} end
  ids[n] = {edge[1], edge[2], edge[3]}
end

if #failures == 0 then
  local waits, waiting = {}, 0
  keep_levels()
  store_edges(list)
  for _, edge in ipairs(list) do
    local from, to, code = edge[2], edge[3], edge[4]
    if code ~= 'R' then
      local blocker, blocked = from, to
      if code == 'I' then blocker, blocked = to, from end
      if not satisfies(loaded[blocker].role, tonumber(edge[5]) or TERMINAL) then
        if not waits[blocked] then waiting = waiting + 1 end
        waits[blocked] = (waits[blocked] or 0) + 1
      end
    end
    emit(events_max, 'link', from, 'o', to, 'c', code)
  end
  if waiting > EDGES_AT_ONCE then owe_counts(waits, events_max) else change_blocker_counts(waits) end
end
return with_debts(remember(request, fingerprint, 'D', cmsgpack.pack({failures, ids, {}}), keep_ms))
