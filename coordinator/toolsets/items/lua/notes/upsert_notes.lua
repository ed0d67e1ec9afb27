--[[
purpose:   Writes notes by (item, key), each atomically.
guarantee: A note and its entry at the item are stored in one step, so gates see it at once. One that somebody else
           has changed is not replaced, if the caller says which it has seen. An answer to a question is taken while its
           item is blocked by that. The caller sends bounded slices.
args:      request run.events_max run.terms run.config run.labels new_notes
           new_notes = packed list of notes (notes.lua); if anything was used or refused, with trusted actor id
           or '', what was used (`usage.add`) and what was refused (`usage.refuse`)
reply:     list of Written (store/notes.py)
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
local change_by_schema = require 'change_by_schema'
local items = require 'items'
local notes = require 'notes'
local questions = require 'questions'
local usage = require 'usage'

-- Writes a note; returns its entry of the reply, without schema inputs.
local function write(run, note)
  local item_id, verification = note[1], note[7]
  local answers, id, reason = string.match(note[2], '^answer%-(%d+)$'), nil, nil
  if answers then reason = notes.problem(run, note) or questions.not_asked(run, item_id, tonumber(answers)) end
  if not reason then id, reason = notes.write(run, note) end
  if reason then return {reason, '', item_id, 0, false, ''} end
  if note[11] then usage.add(run, item_id, note[10], note[11]) end
  if note[12] then usage.refuse(run, item_id, note[2], note[12]) end
  return {'', id, item_id, items.load(run, item_id).role, false, verification}
end

return function(run, request, new_notes)
  return change_by_schema(run, request, {}, function()
    local results = {}
    for n, note in ipairs(cmsgpack.unpack(new_notes)) do results[n] = write(run, note) end
    for _, result in ipairs(results) do -- when all are written: a gate reads all notes of an item
      local item = result[1] == '' and items.load(run, result[3])
      result[5] = item and notes.schema_inputs(run, item) or {false, false, false, {}}
    end
    return results
  end)
end
