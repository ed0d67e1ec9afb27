--[[
purpose:   Answers the pending checkpoint.
guarantee: Of any number of calls exactly one answers a checkpoint. Its timers run from the yield, by the server's
           time. A handle of an earlier yield of the same checkpoint does not answer a later one.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max checkpoint instance least_ms
           text option mode problem late
           checkpoint and instance: see asked.lua; text: the answer in JSON; problem is checked before
           the timer, late after it
reply:     SessionState (store/sessions.py): ok and early with the ms since it was yielded, none, pending with `q` of
           the handle, closed with the last answer of this checkpoint in JSON or '', superseded (`q` is that of the
           token shown, so that it stays so) or failed
errors:    UNKNOWN_SESSION
--]]
local answered = require 'answered'
local asked = require 'asked'
local bindings = require 'bindings'
local clock = require 'clock'
local events = require 'events'
local sessions = require 'sessions'

return function(run, checkpoint, instance, least_ms, text, option, mode, problem, late)
  local s = sessions.find(run, run.sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  local wrong = asked.not_asked(run, s, checkpoint, instance)
  if wrong then return wrong end
  if problem ~= '' then return sessions.refuse(run, s, 'failed', problem) end
  local waited = run.now - tonumber(s.by)
  if waited < tonumber(least_ms) then
    return sessions.refuse(run, s, 'early', mode == 'auto_advance' and 'Auto-advance timer not elapsed'
      or 'Checkpoint response too fast', waited)
  end
  if late ~= '' then return sessions.refuse(run, s, 'failed', late) end

  sessions.note(run, s)
  local answer = '[' .. clock.whole(run.now) .. ',' .. s.n .. ',' .. s.q .. ',' .. text .. ']'
  local place = s.a .. '/' .. checkpoint
  sessions.answer(run, s, place, answer)
  sessions.unset(run, s, 'b')
  local via = cjson.decode(text)[7]
  answered.note(run, 'checkpoint', {s.id, s.w, s.a, checkpoint, s.la, mode, option, run.aid, via or ''})
  events.emit(run, 'session_answer', run.sid, 'w', s.w, 'at', s.a, 'cp', checkpoint, 'how', mode, 'option', option,
    'by', run.aid)
  sessions.advance(run, s, 'r', place, 'l', place)
  sessions.list(run, s)
  if bindings.superseded(run, s) then s.q = run.seq end
  return sessions.reply(run, s, 'ok', waited)
end
