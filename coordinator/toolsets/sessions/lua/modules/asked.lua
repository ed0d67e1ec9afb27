-- Which yield of a checkpoint a call refers to. The token shown names the checkpoint; its `seq` tells whether it is
-- older than the yield of the pending checkpoint. A token without one (`checkpoint` is '') refers to the pending one:
-- the caller is told which, and calls again with the `q` of its handle as `instance`.
-- Agents that have lost the session may still answer the handles of their own yields, and nothing else.
-- owns: none
local bindings = require 'bindings'
local sessions = require 'sessions'

local asked = {}

-- nil if the call refers to the pending checkpoint, else the reply with the reason.
function asked.not_asked(run, s, checkpoint, instance)
  if (checkpoint == '' or instance ~= '') and bindings.superseded(run, s) then
    return sessions.refuse(run, s, 'superseded', 'Superseded')
  end
  if checkpoint == '' then
    if s.b then return sessions.reply(run, s, 'pending', tonumber(s.bq)) end
    return sessions.refuse(run, s, 'none', 'No active checkpoint')
  end
  local meant = s.b == checkpoint
  if meant and instance == '' then meant = tonumber(run.seq) >= tonumber(s.bq) end
  if meant and instance ~= '' then meant = instance == s.bq end
  if meant then return nil end
  local earlier = redis.call('HGET', run.keys.session_answers .. run.sid, run.act .. '/' .. checkpoint)
  return sessions.refuse(run, s, 'closed', "Checkpoint '" .. checkpoint .. "' is not active", earlier or '')
end

return asked
