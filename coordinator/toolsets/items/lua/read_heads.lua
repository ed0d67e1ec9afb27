--[[
purpose:   Reads what is shown of items that other items refer to. The caller sends bounded slices.
guarantee: One consistent view; items that do not exist are left out.
args:      ids
           ids = packed list
reply:     list of {id, title, role, priority}
errors:    none
--]]
-- @include pages
local reply = {}
for _, id in ipairs(cmsgpack.unpack(ids)) do
  local item = load_head(id)
  if item then reply[#reply + 1] = {id, unpack(item)} end
end
return cmsgpack.pack(reply)
