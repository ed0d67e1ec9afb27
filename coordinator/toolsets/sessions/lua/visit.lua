--[[
purpose:   Records a read-only call in the trace, and returns the session's position.
guarantee: Rejected while a checkpoint is pending, whatever the token shown says. A call that failed already
           (problem not '') is recorded as failed once it has passed the gate.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max problem
reply:     SessionState (store/sessions.py): ok, blocked, superseded or failed
errors:    UNKNOWN_SESSION
--]]
local bindings = require 'bindings'
local sessions = require 'sessions'

return function(run, problem)
  local s = sessions.find(run, run.sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  if bindings.superseded(run, s) then return sessions.refuse(run, s, 'superseded', 'Superseded') end
  if s.b then
    return sessions.refuse(run, s, 'blocked', "Blocked: Active checkpoint '" .. s.b .. "' on activity '" .. s.a .. "'")
  end
  if problem ~= '' then return sessions.refuse(run, s, 'failed', problem) end
  sessions.note(run, s)
  sessions.advance(run, s)
  return sessions.reply(run, s, 'ok')
end
