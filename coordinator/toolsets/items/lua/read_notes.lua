--[[
purpose:   One note by id, or the notes of an item.
guarantee: One consistent view. An item that does not exist has no notes.
args:      id item role bodies
           id = note id or ''; item = id or ''; role = letter or '' for all; bodies = 1 or 0
reply:     list of {id, item, key, role letter, body, created, modified, actor, verification}, oldest first
errors:    none
--]]
-- @include keys

local function read(note_id)
  local fields = {'i', 'k', 'r', 'c', 'm', 'a', 'v', bodies == '1' and 'b' or nil}
  local f = redis.call('HMGET', K_NOTE .. note_id, unpack(fields))
  if not f[1] then return nil end
  return {note_id, f[1], f[2], f[3], f[8] or '', tonumber(f[4]), tonumber(f[5]), f[6], f[7]}
end

local list = {}
if id ~= '' then
  list[1] = read(id)
else
  for _, mark in ipairs(redis.call('HVALS', K_NOTES .. item)) do
    if role == '' or string.sub(mark, 33, 33) == role then list[#list + 1] = read(string.sub(mark, 1, 32)) end
  end
  table.sort(list, function(a, b) return a[6] < b[6] or (a[6] == b[6] and a[3] < b[3]) end)
end
return cmsgpack.pack(list)
