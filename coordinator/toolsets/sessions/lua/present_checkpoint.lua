--[[
purpose:   Records that a checkpoint is presented.
guarantee: Only the pending one is presented. Returns no new token and does not change the session.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max checkpoint instance problem
reply:     SessionState (store/sessions.py): ok, none, pending with `q` of the handle, closed with the last answer of
           this checkpoint in JSON or '', superseded or failed
errors:    UNKNOWN_SESSION
--]]
local asked = require 'asked'
local sessions = require 'sessions'

return function(run, checkpoint, instance, problem)
  local s = sessions.find(run, run.sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  local wrong = asked.not_asked(run, s, checkpoint, instance)
  if wrong then return wrong end
  if problem ~= '' then return sessions.refuse(run, s, 'failed', problem) end
  sessions.note(run, s)
  sessions.keep(run, s)
  return sessions.reply(run, s, 'ok')
end
