-- Sessions as lists show them.
-- owns: none
local recent = require 'recent'

local listing = {}

-- See sessions.lua.
local FIELDS = {'w', 'a', 'b', 'by', 'i', 'h', 'la', 'z', 'ps'}

-- The row of a session that changed last at a time (ms); nil: it has expired. See list_sessions.lua.
function listing.row(run, id, changed_at)
  local workflow, activity, checkpoint, yielded, item, holder, agent, completed, parent =
    unpack(redis.call('HMGET', run.keys.session .. id, unpack(FIELDS)))
  if not workflow then return nil end
  return {id, workflow, activity, checkpoint or '', checkpoint and tonumber(yielded) or 0, item or '', holder or '',
    agent or '', completed == '1', parent or '', changed_at}
end

-- When a session changed last (ms); 0: it is not listed.
function listing.changed_at(run, id)
  return tonumber(redis.call('ZSCORE', run.keys.session_index, id) or 0) % recent.MARK
end

return listing
