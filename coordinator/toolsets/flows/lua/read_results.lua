--[[
purpose:   Reads what finished steps of a flow returned.
guarantee: Changes nothing. Results come as they were recorded, whatever the flow's other steps returned.
args:      flow wanted...
           wanted = keys of steps
reply:     {key, status as pack_row writes it, result as JSON or false} for each that has ended
errors:    none
--]]
-- @include keys
local asked, found = {}, {}
for _, key in ipairs(wanted) do asked[key] = true end
for _, packed in ipairs(redis.call('LRANGE', K_HISTORY .. flow, 0, -1)) do
  local row = cmsgpack.unpack(packed)
  if asked[row[2]] then found[#found + 1] = {row[2], row[3], row[8]} end
end
return cmsgpack.pack(found)
