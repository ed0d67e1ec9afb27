--[[
purpose:   Reads one note by id, or the notes of an item.
guarantee: One consistent view of an item with up to a hundred notes and little text; more notes take further runs.
           An item that does not exist has no notes.
args:      id item role bodies ids
           id = note id or ''; item = id or ''; role = letter or '' for all; bodies = 1 or 0; ids = packed list of
           notes left by the run before, or ''
reply:     {list of {id, item, key, role letter, body, created, modified, actor, verification}, ids left}
errors:    none
--]]
-- @include keys

local BUDGET, TEXT_UNIT = 100, 20000 -- notes read in one run, and bytes of text that take as long as one

local function read(note_id)
  local fields = {'i', 'k', 'r', 'c', 'm', 'a', 'v', bodies == '1' and 'b' or nil}
  local item_id, note_key, note_role, created, modified, actor, verification, body =
    unpack(redis.call('HMGET', K_NOTE .. note_id, unpack(fields)))
  if not item_id then return nil end
  return {
    note_id, item_id, note_key, note_role, body or '', tonumber(created), tonumber(modified), actor, verification,
  }
end

local function wanted()
  if ids ~= '' then return cmsgpack.unpack(ids) end
  if id ~= '' then return {id} end
  local list = {}
  for _, entry in ipairs(redis.call('HVALS', K_NOTES .. item)) do
    if role == '' or string.sub(entry, 33, 33) == role then list[#list + 1] = string.sub(entry, 1, 32) end
  end
  return list
end

local list, more, left = {}, {}, BUDGET
for _, note_id in ipairs(wanted()) do
  if left > 0 then
    local note = read(note_id)
    list[#list + 1] = note
    left = left - 1 - (note and #note[5] or 0) / TEXT_UNIT
  else
    more[#more + 1] = note_id
  end
end
return cmsgpack.pack({list, more})
