--[[
purpose:   Reads the state of a session: activities left, answers, claim.
guarantee: A consistent snapshot. Works while a checkpoint is pending; not recorded in the trace. Without a token
           (run.seq is -1) nothing is written.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max all_answers
reply:     SessionState (store/sessions.py): ok with StatusDetail (store/sessions.py), or superseded
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
