--[[
purpose:   Reads what items block, or what blocks them, with the levels of these neighbours.
guarantee: Ends when about 300 edges were read; the caller goes on from there.
args:      step ids added
           step = 1 what they block, -1 what blocks them; ids = packed list; added = packed {id -> list of ids
           that edges lead to which are not there yet}
reply:     list of {{other, level} ..} of the first ids
errors:    none
--]]
-- @include neighbours

local EDGES = 300
local reply, left, further = {}, EDGES, cmsgpack.unpack(added)
for n, id in ipairs(cmsgpack.unpack(ids)) do
  if left <= 0 then break end
  local found = {}
  for _, list in ipairs({neighbours(id)[tonumber(step)], further[id] or {}}) do
    for _, other in ipairs(list) do
      found[#found + 1] = {other, load_level(other)}
    end
  end
  reply[n], left = found, left - 1 - edges_stored(id)
end
return cmsgpack.pack(reply)
