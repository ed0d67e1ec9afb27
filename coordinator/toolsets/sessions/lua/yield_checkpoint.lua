--[[
purpose:   Yields a checkpoint of the current activity: it is pending until answered; its timers start now.
guarantee: At most one is pending. A retry of the call gets the same handle, even after the answer, until the answer
           is resumed from. A checkpoint answered in this visit before another agent took the session over is not
           asked again. `again` asks in both cases.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max checkpoint again problem
reply:     SessionState (store/sessions.py): ok with Pending (store/sessions.py), answered with the earlier answer in
           JSON, active, superseded, unclaimed, moved or failed
errors:    UNKNOWN_SESSION
--]]
local bindings = require 'bindings'
local clock = require 'clock'
local events = require 'events'
local sessions = require 'sessions'

return function(run, checkpoint, again, problem)
  local s = sessions.find(run, run.sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  if bindings.superseded(run, s) then return sessions.refuse(run, s, 'superseded', 'Superseded') end
  local call = sessions.this_call(run, checkpoint)
  if s.bt == call and (s.b or s.r and again ~= '1') then
    return sessions.reply(run, s, 'ok', {tonumber(s.by), tonumber(s.bq), 0})
  end
  local cannot = "Cannot yield checkpoint '" .. checkpoint .. "': "
  if s.b then return sessions.refuse(run, s, 'active', cannot .. "Checkpoint '" .. s.b .. "' is already active") end
  if problem ~= '' then return sessions.refuse(run, s, 'failed', problem) end
  if run.act ~= s.a then return sessions.refuse(run, s, 'moved', cannot .. 'the session has moved on') end
  local holder = bindings.claim_gone(run, s)
  if holder then return sessions.refuse(run, s, 'unclaimed', cannot .. 'the claim is gone', holder) end

  if s.hq and again ~= '1' then
    local earlier = redis.call('HGET', run.keys.session_answers .. run.sid, run.act .. '/' .. checkpoint)
    local visit, q = string.match(earlier or '', '^%[%d+,(%d+),(%d+),')
    if earlier and visit == s.n and tonumber(q) < tonumber(s.hq) then
      sessions.note(run, s)
      sessions.advance(run, s)
      return sessions.reply(run, s, 'answered', earlier)
    end
  end

  sessions.note(run, s)
  if s.r then sessions.unset(run, s, 'r') end
  sessions.advance(run, s, 'b', checkpoint, 'by', clock.whole(run.now), 'bq', clock.whole(s.q + 1), 'bt', call)
  sessions.list(run, s)
  events.emit(run, 'session_yield', run.sid, 'w', s.w, 'at', run.act, 'cp', checkpoint, 'by', run.aid)
  return sessions.reply(run, s, 'ok', {run.now, tonumber(s.q), 1})
end
