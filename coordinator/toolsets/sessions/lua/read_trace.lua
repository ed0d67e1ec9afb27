--[[
purpose:   Reads the trace of a session.
guarantee: Refused while a checkpoint waits for its answer. The call itself is not in the trace.
args:      sid aid act seq entry ttl_ms events_max whole_trace
reply:     {ok | blocked | superseded, now, q, activity, condition, pending, completed, {first, events}}
errors:    UNKNOWN_SESSION
--]]
-- @include claims

local s = find(sid)
if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
if superseded(s) then return reply(s, 'superseded') end
if s.b then return reply(s, 'blocked') end
advance(s)
local events = whole_trace == '1' and redis.call('LRANGE', K_SESSION_TRACE .. sid, 0, -1) or {}
return reply(s, 'ok', {tonumber(s.tb or 0), events})
