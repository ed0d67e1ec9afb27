--[[
purpose:   Takes note that a checkpoint is shown to somebody.
guarantee: Only the one that waits is shown. Gives no new token, so nothing about the session changes.
args:      sid aid act seq entry ttl_ms events_max checkpoint instance problem
reply:     {ok | none | pending | closed | superseded | failed, now, q, activity, condition, pending, completed,
           `q` of the handle | the last answer of this checkpoint in JSON or ''}
errors:    UNKNOWN_SESSION
--]]
-- @include asked

local s = find(sid)
if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
local wrong = not_asked(s, checkpoint, instance)
if wrong then return wrong end
if problem ~= '' then return refuse(s, 'failed', problem) end
note(s)
keep(s)
return reply(s, 'ok')
