--[[
purpose:   Reads one note by id, or the notes of an item.
guarantee: One consistent view of an item with up to a hundred notes and little text; more notes take further calls.
           An item that does not exist has no notes.
args:      id item role bodies ids
           id = note id or ''; item = id or ''; role = letter or '' for all; bodies = 1 or 0; ids = packed list of
           notes left by the last call, or ''
reply:     {list of NoteRow (store/notes.py), ids left}
errors:    none
--]]
local notes = require 'notes'
local read = require 'read'

local NOTES_MAX, TEXT_UNIT = 100, 20000 -- notes read in one call, and bytes of text that take as long as one

-- The ids of an item's notes of a role, or of all for ''.
local function ids_of(run, item, role)
  local list = {}
  for _, entry in ipairs(redis.call('HVALS', run.keys.notes .. item)) do
    if role == '' or string.sub(entry, 33, 33) == role then list[#list + 1] = string.sub(entry, 1, 32) end
  end
  return list
end

return function(run, id, item, role, bodies, ids)
  return read(run, function()
    local wanted = ids ~= '' and cmsgpack.unpack(ids) or id ~= '' and {id} or ids_of(run, item, role)
    local list, more, left = {}, {}, NOTES_MAX
    for _, note_id in ipairs(wanted) do
      if left > 0 then
        local note = notes.load(run, note_id, bodies == '1')
        list[#list + 1] = note
        left = left - 1 - (note and #note[5] or 0) / TEXT_UNIT
      else
        more[#more + 1] = note_id
      end
    end
    return {list, more}
  end)
end
