--[[
purpose:   Reads items of some roles for lists: with their notes (unless blocked), and ancestors if wanted.
guarantee: Ends when about 500 notes were read; the caller goes on from there. Items that no longer exist, or no
           longer have one of the roles, are left out.
args:      roles config ancestors ids
           roles = their codes; config = schema version, '' if there are none; ancestors = 1 or 0; ids = packed list
reply:     {ids finished, list of {id, title, role, schema inputs, ancestors}}
errors:    none
--]]
-- @include notes
-- @include ancestors

local BUDGET = 500
local list, finished, reply, left = cmsgpack.unpack(ids), 0, {}, BUDGET
while finished < #list and left > 0 do
  finished = finished + 1
  local item = load_item(list[finished])
  if item and string.find(roles, item.role, 1, true) then
    local inputs = schema_inputs(item, item.role ~= BLOCKED and config or '')
    reply[#reply + 1] = {item.id, title_of(item), item.role, inputs, ancestors == '1' and ancestors_of(item) or {}}
    left = left - #inputs[4]
  end
end
return cmsgpack.pack({finished, reply})
