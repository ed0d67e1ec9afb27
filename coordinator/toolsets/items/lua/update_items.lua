--[[
purpose:   Updates items partially, each on its own.
guarantee: An update is applied completely or not at all. Moving an item under another parent first checks cycles
           and the depth of its whole subtree, and changes the subtree's depths in the same step. A subtree of more
           than 700 items can only be moved to the same depth.
args:      request fingerprint keep_ms events_max config labels changes
           changes = packed list of {id, fields}; fields by letter as in include/item.lua, p priority,
           c complexity; false clears, pa = '' moves to the root
reply:     list of {'updated' or the reason, id, modified at, requires verification}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include create
-- @include reparent
-- @include settle

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end
if config_missing(config) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end

local run = {now = server_time(), events_max = events_max, config = config, labels = labels}
if not settle_debts(run.now) then return redis.error_reply('FLEET UNSETTLED') end
local BY_LENGTH = {t = true, s = true} -- texts that are stored where their length puts them
local BESIDE = {x = true, m = true, o = true} -- and those beside the item

-- To be scored: the one that is given, that of before (nil), or none (false).
local function new_complexity(item, given)
  if given == nil then given = complexity_of(item.score) end
  return given or NO_COMPLEXITY
end

-- One update; returns its entry of the reply.
local function update(id, fields)
  local item = load_item(id)
  if not item then return {absence_reason(id), id, 0, false} end
  local moves, shift, below, above = fields.pa ~= nil and fields.pa ~= (item.pa or '')
  if moves then
    shift, below, above = plan_move(item, fields.pa)
    if not shift then return {below, id, 0, false} end
  end
  local scopes_before, score_before = scopes_of(item), item.score
  set_class(item, item.class) -- it may suit others now
  local priority = fields.p or priority_of(item.score)
  set_field(item, 'score', score_of(item.class, priority, new_complexity(item, fields.c), created_of(item.score)))
  for field, value in pairs(fields) do
    if BY_LENGTH[field] then
      set_text(item, field, value)
    elseif BESIDE[field] then
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
