--[[
purpose:   Reads the trace of a session.
guarantee: Refused while a checkpoint waits for its answer. The call itself is not in the trace. Of a trace that is
           too large the newest events are shown.
args:      sid aid act seq entry ttl_ms events_max whole_trace
reply:     {ok | blocked | superseded, now, q, activity, condition, pending, completed, {first, events}}
errors:    UNKNOWN_SESSION
full:      reading; the token that it writes takes the place of another
--]]
-- @include claims

local TRACE_BYTES = 2000000

local s = find(sid)
if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
if superseded(s) then return reply(s, 'superseded') end
if s.b then return reply(s, 'blocked') end
advance(s)
local events = whole_trace == '1' and redis.call('LRANGE', K_SESSION_TRACE .. sid, 0, -1) or {}
local before, bytes, shown = #events, 0, {}
while before > 0 and bytes + #events[before] <= TRACE_BYTES do
  bytes = bytes + #events[before]
  before = before - 1
end
for n = before + 1, #events do shown[#shown + 1] = events[n] end
return reply(s, 'ok', {tonumber(s.tb or 0) + before, shown})
