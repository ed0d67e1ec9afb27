--[[
purpose:   Partial updates, each item on its own.
guarantee: An update is applied whole or not at all. Moving an item under another parent checks cycles
           and the depth of its whole subtree first and shifts the subtree's depths in the same step; one of
           more than 700 items keeps its depth.
args:      request fingerprint keep_ms events_max config labels changes
           changes = packed list of {id, fields}; fields by letter as in include/item.lua, false clears,
           pa = '' moves to the root
reply:     list of {'updated' or the reason, id, modified at, requires verification}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include create
-- @include settle

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end
if config_missing(config) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end

local run = {now = server_time(), events_max = events_max, config = config, labels = labels}
if not settle_debts(run.now) then return redis.error_reply('FLEET UNSETTLED') end
local IS_TEXT = {t = true, s = true}
local IS_LONG = {x = true, m = true, o = true}
local MOST_MOVED = 700 -- items below one that moves to another depth

-- The ids below an item by level, at most so many in all; nil where there are more.
local function descendants(id)
  local levels, level, left = {}, {id}, MOST_MOVED
  while level[1] do
    local below = {}
    for _, above in ipairs(#levels < MAX_DEPTH and level or {}) do
      for _, child in ipairs(redis.call('ZRANGE', K_RANKED .. 'p' .. above, 0, left)) do
        below[#below + 1], left = child, left - 1
      end
      if left < 0 then return nil end
    end
    if below[1] then levels[#levels + 1] = below end
    level = below
  end
  return levels
end

-- The shift of depth that the new parent means and the levels below that it applies to, or nil and the reason.
local function plan_move(item, parent_id)
  local above = parent_id ~= '' and load_item(parent_id)
  if parent_id ~= '' and not above then return nil, 'parent_' .. absence_reason(parent_id) end
  local shift = (above and above.d + 1 or 0) - item.d
  local walk = above
  while walk do
    if walk.id == item.id then return nil, 'parent_cycle' end
    walk = walk.pa and load_item(walk.pa)
  end
  local below = shift == 0 and {} or descendants(item.id)
  if not below then return nil, 'too_many_below' end
  if item.d + shift + #below > MAX_DEPTH then return nil, 'too_deep' end
  return shift, below, above
end

local function apply_move(item, parent_id, shift, below)
  local lapsed, from = item.holder and not is_held(item), item.pa
  if lapsed then count_lapsed(item, -1) end
  set_field(item, 'pa', parent_id ~= '' and parent_id)
  if lapsed then count_lapsed(item, 1) end
  set_field(item, 'd', item.d + shift)
  move_bounds(item, from)
  freed_ids[#freed_ids + 1] = item.id -- what is below it may have come out from below a held one
  for level, ids in ipairs(below) do
    for _, id in ipairs(ids) do
      redis.call('HSET', K_ITEM .. id, 'd', item.d + level)
      if loaded[id] then loaded[id].d = item.d + level end
    end
  end
end

local function new_complexity(item, given)
  if given == nil then given = complexity_of(item.score) end
  return given or NO_COMPLEXITY
end

local function update(id, fields)
  local item = load_item(id)
  if not item then return {absence_reason(id), id, 0, false} end
  local moves, shift, below, above = fields.pa ~= nil and fields.pa ~= (item.pa or '')
  if moves then
    shift, below, above = plan_move(item, fields.pa)
    if not shift then return {below, id, 0, false} end
  end
  local scopes_before, score_before = scopes_of(item), item.score
  set_class(item, item.class)
  local priority = fields.p or priority_of(item.score)
  set_field(item, 'score', score_of(item.class, priority, new_complexity(item, fields.c), created_of(item.score)))
  for field, value in pairs(fields) do
    if IS_TEXT[field] then
      set_text(item, field, value)
    elseif IS_LONG[field] then
      if value then
        redis.call('HSET', K_TEXT .. id, field, value)
      else
        redis.call('HDEL', K_TEXT .. id, field)
      end
    elseif field ~= 'pa' and field ~= 'p' and field ~= 'c' then
      set_field(item, field, value)
    end
  end
  if moves then apply_move(item, fields.pa, shift, below) end
  set_modified(item, run.now)
  reindex_item(item, scopes_before, score_before)
  save_item(item)
  emit(run.events_max, 'update', id)
  if moves and above then reopen_parent(above, run) end
  return {'updated', id, tonumber(item.ma), item.rv ~= nil}
end

local results = {}
for n, change in ipairs(cmsgpack.unpack(changes)) do results[n] = update(change[1], change[2]) end
serve_waiters(run.now, events_max)
return with_debts(remember(request, fingerprint, 'D', cmsgpack.pack(results), keep_ms))
