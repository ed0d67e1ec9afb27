--[[
purpose:   Moves a session to an activity, or to its end, and cuts the trace of the calls before.
guarantee: Rejected while a checkpoint is pending, whatever the token shown says. The cut is atomic with the move,
           so each event is in exactly one trace token. A retry of the call changes nothing and gets the same
           trace; a retry with another report corrects the previous one without a second visit. A completed
           session reopens only if its item has no other open session of its workflow.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max target condition report ends
           problem
           report: a digest of the report on the transition   ends 1: the activity left was the last one,
           target is an end
reply:     SessionState (store/sessions.py): ok with Cut (store/sessions.py), blocked, superseded, unclaimed,
           exists or failed
errors:    UNKNOWN_SESSION
--]]
local bindings = require 'bindings'
local clock = require 'clock'
local events = require 'events'
local sessions = require 'sessions'

local SEGMENT_MAX, SEGMENT_BYTES = 1000, 500000

-- The events from `first` to before `past`, as many as fit into a token; older ones may have been trimmed.
local function events_between(run, s, first, past)
  local base = tonumber(s.tb or 0)
  first = math.max(first, base)
  past = math.min(past, first + SEGMENT_MAX)
  local trace = run.keys.session_trace .. run.sid
  local found = past > first and redis.call('LRANGE', trace, first - base, past - base - 1) or {}
  local fit, bytes = {}, 0
  for n, event in ipairs(found) do
    bytes = bytes + #event
    if bytes > SEGMENT_BYTES then break end
    fit[n] = event
  end
  return {first, first + #fit, fit, ''}
end

-- The activities left, including the one left now.
local function activities_left(run, s)
  local left, known = s.d and cmsgpack.unpack(s.d) or {}, run.act == ''
  for _, activity in ipairs(left) do known = known or activity == run.act end
  if not known then left[#left + 1] = run.act end
  return cmsgpack.pack(left)
end

return function(run, target, condition, report, ends, problem)
  local s = sessions.find(run, run.sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  if bindings.superseded(run, s) then return sessions.refuse(run, s, 'superseded', 'Superseded') end
  local cannot = "Cannot transition to '" .. target .. "': "
  if s.b then
    return sessions.refuse(run, s, 'blocked', cannot .. "Active checkpoint '" .. s.b .. "' on activity '" .. s.a .. "'")
  end
  if problem ~= '' then return sessions.refuse(run, s, 'failed', problem) end
  local holder = bindings.claim_gone(run, s)
  if holder then return sessions.refuse(run, s, 'unclaimed', cannot .. 'the claim is gone', holder) end

  local again = s.z and s.i and ends ~= '1'
  if again and bindings.bound_session(run, s.i, s.w) then
    return sessions.refuse(run, s, 'exists', cannot .. 'the item has another open session')
  end

  local call = sessions.this_call(run, target)
  if s.tk == call and s.tr == report then
    sessions.advance(run, s)
    return sessions.reply(run, s, 'ok', events_between(run, s, tonumber(s.tp), tonumber(s.tc)))
  end

  local segment = events_between(run, s, tonumber(s.tc), math.huge)
  local said = {'c', condition, 'tp', clock.whole(segment[1]), 'tc', clock.whole(segment[2]), 'tk', call, 'tr', report}
  if s.tk == call then
    run.act = s.a -- the token is not behind: this call moved the session
    sessions.note(run, s)
    sessions.advance(run, s, unpack(said))
    return sessions.reply(run, s, 'ok', segment)
  end
  if run.act ~= s.a then segment[4] = s.a end
  sessions.note(run, s)

  local left = activities_left(run, s)
  if s.r or s.z then sessions.unset(run, s, 'r', 'z') end
  if ends == '1' then
    sessions.advance(run, s, 'a', run.act, 'z', '1', 'd', left, unpack(said))
    events.emit(run, 'session_complete', run.sid, 'w', s.w, 'from', run.act, 'by', run.aid)
  else
    sessions.advance(run, s, 'a', target, 'n', clock.whole(s.n + 1), 'd', left, unpack(said))
    if again then sessions.point(run, s) end
    events.emit(run, 'session_move', run.sid, 'w', s.w, 'from', run.act, 'to', target, 'by', run.aid)
  end
  sessions.list(run, s)
  return sessions.reply(run, s, 'ok', segment)
end
