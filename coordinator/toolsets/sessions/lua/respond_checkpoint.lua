--[[
purpose:   Answers the checkpoint that waits.
guarantee: Exactly one call answers a checkpoint, of however many that try. Its timers run from when it was yielded,
           by the server's time. A handle of an earlier yield of the same checkpoint does not answer a later one.
args:      sid aid act seq entry ttl_ms events_max checkpoint instance least_ms text option mode problem late
           checkpoint and instance as include/asked.lua says; text the answer in JSON; problem is looked at before
           the timer, late after it
reply:     {ok | none | pending | closed | superseded | early | failed, now, q, activity, condition, pending,
           completed, ms since it was yielded | `q` of the handle | the last answer of this checkpoint in JSON or ''}
           q is that of the token shown where it is superseded, so that it stays so
errors:    UNKNOWN_SESSION
--]]
-- @include asked

local s = find(sid)
if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
local wrong = not_asked(s, checkpoint, instance)
if wrong then return wrong end
if problem ~= '' then return refuse(s, 'failed', problem) end
local waited = now - tonumber(s.by)
if waited < tonumber(least_ms) then
  return refuse(s, 'early', mode == 'auto_advance' and 'Auto-advance timer not elapsed'
    or 'Checkpoint response too fast', waited)
end
if late ~= '' then return refuse(s, 'failed', late) end

note(s)
local answer = '[' .. whole(now) .. ',' .. s.n .. ',' .. s.q .. ',' .. text .. ']'
local place = s.a .. '/' .. checkpoint
redis.call('HSET', K_SESSION_ANSWERS .. sid, place, answer)
if redis.call('PTTL', K_SESSION_ANSWERS .. sid) < 0 then redis.call('PEXPIRE', K_SESSION_ANSWERS .. sid, ttl_ms) end
unset(s, 'b')
emit(events_max, 'session_answer', sid, 'w', s.w, 'at', s.a, 'cp', checkpoint, 'how', mode, 'option', option, 'by', aid)
advance(s, 'r', place, 'l', place)
if superseded(s) then s.q = seq end
return reply(s, 'ok', waited)
