--[[
purpose:   Reads one approval, answered or not.
guarantee: Changes nothing.
args:      approval
reply:     {instance, definition, queue, distinct, requester, asked at, transition, status, by, answered at, answer,
           via} or {}: there is none
errors:    none
writes:    none
--]]
local read = require 'read'

-- See modules/approvals.lua.
local FIELDS = {'w', 'n', 'q', 'd', 'r', 't', 'k', 's', 'b', 'e', 'a', 'v'}

return function(run, approval)
  return read(run, function()
    local instance, definition, queue, distinct, requester, asked_at, transition, status, by, answered_at, answer,
      via = unpack(redis.call('HMGET', run.keys.gate_approval .. approval, unpack(FIELDS)))
    if not instance then return {} end
    return {instance, definition, queue, distinct == '1', requester, tonumber(asked_at), transition, status,
      by or '', tonumber(answered_at or 0), answer or '', via or ''}
  end)
end
