--[[
purpose:   Lists what people are asked for and have not answered, oldest first.
guarantee: Changes nothing. Reads `limit` of them at most, of those asked for since `from`.
args:      from limit
reply:     {id, instance, definition, queue, distinct, requester, asked at, transition} for each
errors:    none
--]]
-- @include keys
local rows = {}
for n, id in ipairs(redis.call('ZRANGEBYSCORE', K_GATE_ASKED, from, '+inf', 'LIMIT', 0, limit)) do
  local a = redis.call('HMGET', K_GATE_APPROVAL .. id, 'w', 'n', 'q', 'd', 'r', 't', 'k')
  rows[n] = {id, a[1] or '', a[2] or '', a[3] or '', a[4] == '1', a[5] or '', tonumber(a[6] or 0), a[7] or ''}
end
return cmsgpack.pack(rows)
