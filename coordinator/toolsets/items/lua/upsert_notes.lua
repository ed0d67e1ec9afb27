--[[
purpose:   Writes notes by (item, key), each on its own.
guarantee: A note is stored with its mark on the item in one step, so gates see it at once. The caller
           sends bounded slices.
args:      request fingerprint keep_ms events_max config labels notes
           notes = packed list of notes (include/notes.lua)
reply:     list of {reason or '', note id, item, role of the item, schema inputs, verification as it is stored}
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

local MOST_NOTES = 500 -- of one item: they go and are listed with it
local now, results = server_time(), {}
if not settle(now) then return redis.error_reply('FLEET UNSETTLED') end

-- Why a note cannot be written.
local function problem(item, key)
  if not load(item) then return absent(item) end
  local marks = K_NOTES .. item
  if redis.call('HLEN', marks) >= MOST_NOTES and redis.call('HEXISTS', marks, key) == 0 then return 'too_many_notes' end
end

for n, note in ipairs(cmsgpack.unpack(notes)) do
  local reason = problem(note[1], note[2])
  if not reason then
    local it = load(note[1])
    local id = store_note(note, now)
    results[n] = {'', id, it.id, it.role, false, note[7]}
    emit(events_max, 'note', it.id, 'n', note[2])
  else
    results[n] = {reason, '', note[1], 0, false, ''}
  end
end
for _, result in ipairs(results) do
  local it = result[1] == '' and load(result[3])
  result[5] = it and schema_inputs(it, config) or {false, false, false, {}}
end
return remember(request, fingerprint, 'D', cmsgpack.pack(results), keep_ms)
