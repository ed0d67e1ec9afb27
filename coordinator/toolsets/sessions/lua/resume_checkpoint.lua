--[[
purpose:   Resumes the worker after its checkpoint was answered.
guarantee: Only from an answer not resumed from yet. A retry of the call gets the same answer.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max
reply:     SessionState (store/sessions.py): ok with the answer in JSON, blocked, nothing, superseded or unclaimed
errors:    UNKNOWN_SESSION
--]]
local bindings = require 'bindings'
local events = require 'events'
local sessions = require 'sessions'

return function(run)
  local s = sessions.find(run, run.sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  if bindings.superseded(run, s) then return sessions.refuse(run, s, 'superseded', 'Superseded') end
  if s.b then return sessions.refuse(run, s, 'blocked', "Cannot resume: Checkpoint '" .. s.b .. "' is still active") end
  local call = sessions.this_call(run)
  if not s.r then
    if s.rt == call then
      sessions.advance(run, s)
      return sessions.reply(run, s, 'ok', s.rl)
    end
    return sessions.refuse(run, s, 'nothing', 'Cannot resume: no resolved checkpoint')
  end
  local holder = bindings.claim_gone(run, s)
  if holder then return sessions.refuse(run, s, 'unclaimed', 'Cannot resume: the claim is gone', holder) end

  sessions.note(run, s)
  local answer = redis.call('HGET', run.keys.session_answers .. run.sid, s.r)
  sessions.unset(run, s, 'r')
  events.emit(run, 'session_resume', run.sid, 'w', s.w, 'at', s.a, 'by', run.aid)
  sessions.advance(run, s, 'rl', answer, 'rt', call)
  sessions.list(run, s)
  return sessions.reply(run, s, 'ok', answer)
end
