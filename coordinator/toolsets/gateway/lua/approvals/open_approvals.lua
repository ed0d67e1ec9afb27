--[[
purpose:   Lists the pending approvals, oldest first.
guarantee: Changes nothing. Reads at most `limit`, of those asked for since `from`.
args:      from limit
reply:     for each PendingApproval (store/audit.py)
errors:    none
--]]
local read = require 'read'

return function(run, from, limit)
  return read(run, function()
    local rows = {}
    for n, id in ipairs(redis.call('ZRANGEBYSCORE', run.keys.gate_asked, from, '+inf', 'LIMIT', 0, limit)) do
      -- Fields: see approvals.lua.
      local instance, definition, queue, distinct, requester, asked_at, transition =
        unpack(redis.call('HMGET', run.keys.gate_approval .. id, 'w', 'n', 'q', 'd', 'r', 't', 'k'))
      rows[n] = {id, instance or '', definition or '', queue or '', distinct == '1', requester or '',
        tonumber(asked_at or 0), transition or ''}
    end
    return rows
  end)
end
