--[[
purpose:   Reads one approval, answered or not.
guarantee: Changes nothing.
args:      approval
reply:     {instance, definition, queue, distinct, requester, asked at, transition, status, by, answered at, answer}
           or {}: there is none
errors:    none
--]]
-- @include keys
local instance, definition, queue, distinct, requester, asked_at, transition, status, by, answered_at, answer =
  unpack(redis.call('HMGET', K_GATE_APPROVAL .. approval, 'w', 'n', 'q', 'd', 'r', 't', 'k', 's', 'b', 'e', 'a'))
if not instance then return cmsgpack.pack({}) end -- fields: see include/approvals.lua
return cmsgpack.pack({instance, definition, queue, distinct == '1', requester, tonumber(asked_at), transition, status,
  by or '', tonumber(answered_at or 0), answer or ''})
