--[[
purpose:   Writes notes by (item, key), each on its own.
guarantee: A note and its mark on the item are stored in one step, so gates see it at once. The caller sends bounded
           slices.
args:      request fingerprint keep_ms events_max config labels notes
           notes = packed list of notes (include/notes.lua)
reply:     list of {reason or '', note id, item, role of the item, schema inputs, stored verification}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include settle
-- @include schema

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end
if config_missing(config) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end

local NOTES_MAX = 500 -- of one item: they go and are listed with it
local now, results = server_time(), {}
if not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end

-- Why a note cannot be written, or nil.
local function problem(item_id, key)
  if not load_item(item_id) then return absence_reason(item_id) end
  local notes_key = K_NOTES .. item_id
  local full = redis.call('HLEN', notes_key) >= NOTES_MAX
  if full and redis.call('HEXISTS', notes_key, key) == 0 then return 'too_many_notes' end
end

for n, note in ipairs(cmsgpack.unpack(notes)) do
  local item_id, key, verification = note[1], note[2], note[7]
  local reason = problem(item_id, key)
  if not reason then
    local id = store_note(note, now)
    results[n] = {'', id, item_id, load_item(item_id).role, false, verification}
    emit(events_max, 'note', item_id, 'n', key)
  else
    results[n] = {reason, '', item_id, 0, false, ''}
  end
end
for _, result in ipairs(results) do
  local item = result[1] == '' and load_item(result[3])
  result[5] = item and schema_inputs(item, config) or {false, false, false, {}}
end
return remember(request, fingerprint, 'D', cmsgpack.pack(results), keep_ms)
