-- Which yield of a checkpoint a caller means. The token shown names the checkpoint, and its `seq` tells whether it
-- was made before or after the checkpoint that waits now was yielded. A token without one (`checkpoint` is '') means
-- the one that waits: the caller is told which, and calls again with the `q` of its handle as `instance`.
-- Agents that have lost the session may still answer what the handles of their time ask, and nothing else.
local bindings = require 'bindings'
local sessions = require 'sessions'

local asked = {}

-- nil if the caller means the checkpoint that waits, else the reply that says why not.
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
