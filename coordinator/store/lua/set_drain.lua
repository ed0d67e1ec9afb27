--[[
purpose:   Asks processes to take no new work, or ends that.
guarantee: Asking again keeps the time of the first request.
args:      scope on
           scope = fleet, host:<name> or process:<host>/<slot>; on = 1 or 0
reply:     rows {scope, since ms}: all that is asked for now
errors:    none
full:      a name; and a drain can be ended
--]]
-- @include keys
-- @include clock
if on == '1' then
  redis.call('HSETNX', K_DRAINS, scope, whole(server_time()))
else
  redis.call('HDEL', K_DRAINS, scope)
end
local rows, flat = {}, redis.call('HGETALL', K_DRAINS)
for n = 1, #flat, 2 do rows[#rows + 1] = {flat[n], tonumber(flat[n + 1])} end
return cmsgpack.pack(rows)
