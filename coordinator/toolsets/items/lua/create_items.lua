--[[
purpose:   Creates items, each on its own.
guarantee: Each item appears completely (hash, texts, indexes) or not at all, with the right depth. The caller sends
           bounded slices. All items of a call have the creation time of the first slice, and the caller makes their ids
           rise, so they stay in the order in which they were given, wherever items are listed.
args:      request fingerprint keep_ms events_max config labels created specs
           created = as the reply to the call's first slice says, 0 in that; specs = packed list of specs
           (include/create.lua)
reply:     {created (ms), list of {'created', depth, id} or {reason, 0, id}}
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

local list, results, now = cmsgpack.unpack(specs), {}, server_time()
local run = {
  now = now, created = created == '0' and now or tonumber(created), events_max = events_max, config = config,
  labels = labels, all_new = all_new(list),
}
-- First what is owed: a parent that reopens may be handed out.
if not settle_debts(run.now) then return redis.error_reply('FLEET UNSETTLED') end
for n, spec in ipairs(list) do
  local item, reason = create_item(spec, run)
  results[n] = {item and 'created' or reason, item and item.d or 0, spec[1]}
end
index_new_items(events_max)
serve_waiters(run.now, events_max)
return with_debts(remember(request, fingerprint, 'D', cmsgpack.pack({run.created, results}), keep_ms))
