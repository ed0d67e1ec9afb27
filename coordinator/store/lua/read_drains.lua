--[[
purpose:   Reads which processes are asked to take no new work.
guarantee: Reads one small hash.
args:      none
reply:     rows {scope, since ms}
errors:    none
--]]
-- @include keys
local rows, flat = {}, redis.call('HGETALL', K_DRAINS)
for n = 1, #flat, 2 do rows[#rows + 1] = {flat[n], tonumber(flat[n + 1])} end
return cmsgpack.pack(rows)
