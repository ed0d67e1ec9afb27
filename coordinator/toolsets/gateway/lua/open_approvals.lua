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
  local instance, definition, queue, distinct, requester, asked_at, transition =
    unpack(redis.call('HMGET', K_GATE_APPROVAL .. id, 'w', 'n', 'q', 'd', 'r', 't', 'k')) -- see include/approvals.lua
  rows[n] = {id, instance or '', definition or '', queue or '', distinct == '1', requester or '',
    tonumber(asked_at or 0), transition or ''}
end
return cmsgpack.pack(rows)
