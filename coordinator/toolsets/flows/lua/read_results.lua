--[[
purpose:   Reads what finished steps of a flow returned.
guarantee: Changes nothing.
args:      flow wanted...
           wanted = keys of steps
reply:     {number, key, status, result as JSON, its length or false} as pack_row writes them, for each that has ended
errors:    none
--]]
-- @include keys
local asked, found = {}, {}
for _, key in ipairs(wanted) do asked[key] = true end
for _, packed in ipairs(redis.call('LRANGE', K_HISTORY .. flow, 0, -1)) do
  local number, key, status, _, _, _, _, result = unpack(cmsgpack.unpack(packed))
  if asked[key] then found[#found + 1] = {number, key, status, result} end
end
return cmsgpack.pack(found)
