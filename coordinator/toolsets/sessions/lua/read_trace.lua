--[[
purpose:   Reads the trace of a session.
guarantee: Rejected while a checkpoint is pending. The call itself is not in the trace. Of too large a trace the
           newest events are shown.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max whole_trace
reply:     SessionState (store/sessions.py): ok with {place of the first event, events}, blocked or superseded
errors:    UNKNOWN_SESSION
full:      a read; the token that it writes overwrites another
--]]
local bindings = require 'bindings'
local sessions = require 'sessions'

local TRACE_BYTES = 2000000

return function(run, whole_trace)
  local s = sessions.find(run, run.sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  if bindings.superseded(run, s) then return sessions.reply(run, s, 'superseded') end
  if s.b then return sessions.reply(run, s, 'blocked') end
  sessions.advance(run, s)
  local trace = whole_trace == '1' and redis.call('LRANGE', run.keys.session_trace .. run.sid, 0, -1) or {}
  local before, bytes, shown = #trace, 0, {}
  while before > 0 and bytes + #trace[before] <= TRACE_BYTES do
    bytes = bytes + #trace[before]
    before = before - 1
  end
  for n = before + 1, #trace do shown[#shown + 1] = trace[n] end
  return sessions.reply(run, s, 'ok', {tonumber(s.tb or 0) + before, shown})
end
