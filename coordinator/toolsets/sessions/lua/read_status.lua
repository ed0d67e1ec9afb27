--[[
purpose:   Reads the state of a session: activities left, answers, claim.
guarantee: A consistent snapshot. Works while a checkpoint is pending; not recorded in the trace. Without a token
           (run.seq is -1) nothing is written.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max all_answers
reply:     {ok | superseded, now, q, activity, condition, pending, completed, {activities left, answers in JSON if asked
           for, last answer in JSON or '', answer not resumed from or '', visit, yielded at or 0,
           parent {session, workflow, activity, version} or {}, claim {item, fence, holder now if it is
           the one whose claim was shown or '', expires now,
           whether it is the claim shown and live} or {}, workflow}}
errors:    UNKNOWN_SESSION
full:      a read; the token that it writes overwrites another
--]]
local bindings = require 'bindings'
local leases = require 'leases'
local sessions = require 'sessions'

return function(run, all_answers)
  local s = sessions.find(run, run.sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  if run.seq ~= '-1' then
    if bindings.superseded(run, s) then return sessions.reply(run, s, 'superseded') end
    sessions.advance(run, s)
  end
  local claim = {}
  if s.i then
    local lease = leases.of(run, s.i) or {holder = false, expires = 0}
    local own = lease.live and lease.holder == s.h
    claim = {s.i, tonumber(s.f), own and s.h or '', lease.live and lease.expires or 0, not bindings.claim_gone(run, s)}
  end
  return sessions.reply(run, s, 'ok', {
    s.d and cmsgpack.unpack(s.d) or {},
    all_answers == '1' and redis.call('HVALS', run.keys.session_answers .. run.sid) or {},
    s.l and redis.call('HGET', run.keys.session_answers .. run.sid, s.l) or '',
    s.r and redis.call('HGET', run.keys.session_answers .. run.sid, s.r) or '',
    tonumber(s.n),
    tonumber(s.by or 0),
    s.ps and {s.ps, s.pw, s.pa, s.pv} or {},
    claim,
    s.w,
  })
end
