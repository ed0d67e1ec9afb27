--[[
purpose:   Reads what each of some items blocks.
guarantee: One consistent view; for an unknown id, exists is false and the list is empty.
args:      ids
           ids = packed list
reply:     list of {id, exists, ids of items that it blocks}
errors:    none
--]]
-- @include graph
local reply = {}
for n, id in ipairs(cmsgpack.unpack(ids)) do
  local blocked = {}
  each_edge(id, function(code, other)
    if blocks_other(code) then blocked[#blocked + 1] = other end
  end)
  reply[n] = {id, load_item(id) ~= nil, blocked}
end
return cmsgpack.pack(reply)
