--[[
purpose:   Reads one approval, answered or not.
guarantee: Changes nothing.
args:      approval
reply:     {instance, definition, queue, distinct, requester, asked at, transition, status, by, answered at, answer}
           or {}: there is none
errors:    none
--]]
-- @include keys
local a = redis.call('HMGET', K_GATE_APPROVAL .. approval, 'w', 'n', 'q', 'd', 'r', 't', 'k', 's', 'b', 'e', 'a')
if not a[1] then return cmsgpack.pack({}) end
return cmsgpack.pack({a[1], a[2], a[3], a[4] == '1', a[5], tonumber(a[6]), a[7], a[8], a[9] or '', tonumber(a[10] or 0),
  a[11] or ''})
