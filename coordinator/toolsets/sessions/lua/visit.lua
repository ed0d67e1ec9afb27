--[[
purpose:   Takes note of a call that changes nothing in a session but its trace, and says where the session stands.
guarantee: Refused while a checkpoint waits for its answer, whatever the token shown says. A call that failed
           already (problem not '') is noted as such once it has passed the gate.
args:      sid aid act seq entry ttl_ms events_max problem
reply:     {ok | blocked | superseded | failed, now, q, activity, condition, pending checkpoint, completed, false}
errors:    UNKNOWN_SESSION
--]]
-- @include claims

local s = find(sid)
if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
if superseded(s) then return refuse(s, 'superseded', 'Superseded') end
if s.b then
  return refuse(s, 'blocked', "Blocked: Active checkpoint '" .. s.b .. "' on activity '" .. s.a .. "'")
end
if problem ~= '' then return refuse(s, 'failed', problem) end
note(s)
advance(s)
return reply(s, 'ok')
