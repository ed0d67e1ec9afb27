--[[
purpose:   Items of one role for a list, with their notes and ancestors where asked for.
guarantee: Ends when about 500 notes were read; the caller goes on from there. Items that are gone
           or have another role by now are left out.
args:      role config ancestors ids
           config = schema version, '' to leave notes out; ancestors = 1 or 0; ids = packed list
reply:     {ids finished, list of {id, title, schema inputs, ancestors}}
errors:    none
--]]
-- @include notes
-- @include ancestors

local BUDGET = 500
local list, finished, reply, left = cmsgpack.unpack(ids), 0, {}, BUDGET
while finished < #list and left > 0 do
  finished = finished + 1
  local it = load(list[finished])
  if it and it.role == tonumber(role) then
    local inputs = schema_inputs(it, config)
    reply[#reply + 1] = {it.id, title(it), inputs, ancestors == '1' and ancestors_of(it) or {}}
    left = left - #inputs[4]
  end
end
return cmsgpack.pack({finished, reply})
