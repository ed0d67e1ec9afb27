--[[
purpose:   What is shown of items that others refer to. The caller sends bounded slices.
guarantee: One consistent view; items that do not exist are left out.
args:      ids
           ids = packed list
reply:     list of {id, title, role, priority}
errors:    none
--]]
-- @include pages
local reply = {}
for _, id in ipairs(cmsgpack.unpack(ids)) do
  local it = head(id)
  if it then reply[#reply + 1] = {id, unpack(it)} end
end
return cmsgpack.pack(reply)
