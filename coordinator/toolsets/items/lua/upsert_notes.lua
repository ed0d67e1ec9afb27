--[[
purpose:   Writes notes by (item, key), each atomically.
guarantee: A note and its entry at the item are stored in one step, so gates see it at once. The caller sends
           bounded slices.
args:      request run.events_max run.attempts run.config run.labels new_notes
           new_notes = packed list of notes (modules/notes.lua)
reply:     list of {reason or '', note id, item, role of the item, schema inputs, stored verification}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
writes:    item text ranked beneath owed leases agents agent_attempts holds lapsed abandoned retries quarantined notes
           note request events transitions waiting wanted queue waiter messages
--]]
local change = require 'change'
local item_events = require 'item_events'
local items = require 'items'
local notes = require 'notes'
local schemas = require 'schemas'

local NOTES_MAX = 500 -- per item: they are deleted and listed with it

-- Why a note cannot be written, or nil.
local function problem(run, item_id, key)
  if not items.load(run, item_id) then return items.absence_reason(item_id) end
  local notes_key = run.keys.notes .. item_id
  local full = redis.call('HLEN', notes_key) >= NOTES_MAX
  if full and redis.call('HEXISTS', notes_key, key) == 0 then return 'too_many_notes' end
end

-- Writes a note; returns its entry of the reply, without schema inputs.
local function write(run, note)
  local item_id, key, verification = note[1], note[2], note[7]
  local reason = problem(run, item_id, key)
  if reason then return {reason, '', item_id, 0, false, ''} end
  local id = notes.store(run, note)
  item_events.emit_of(run, 'note', item_id, 'n', key)
  return {'', id, item_id, items.load(run, item_id).role, false, verification}
end

return function(run, request, new_notes)
  return change(run, request, function()
    if schemas.is_missing(run) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end
    local results = {}
    for n, note in ipairs(cmsgpack.unpack(new_notes)) do results[n] = write(run, note) end
    for _, result in ipairs(results) do -- when all are written: a gate reads all notes of an item
      local item = result[1] == '' and items.load(run, result[3])
      result[5] = item and notes.schema_inputs(run, item) or {false, false, false, {}}
    end
    return results
  end)
end
