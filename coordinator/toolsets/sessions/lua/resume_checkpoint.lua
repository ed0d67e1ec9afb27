--[[
purpose:   Lets the worker go on after its checkpoint was answered.
guarantee: Only where an answer is there that nobody has resumed from. The same call made again gets the same answer.
args:      sid aid act seq entry ttl_ms events_max
reply:     {ok | blocked | nothing | superseded | unclaimed, now, q, activity, condition, pending, completed,
           the answer in JSON | who holds the item now}
errors:    UNKNOWN_SESSION
--]]
-- @include claims

local s = find(sid)
if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
if superseded(s) then return refuse(s, 'superseded', 'Superseded') end
if s.b then return refuse(s, 'blocked', "Cannot resume: Checkpoint '" .. s.b .. "' is still active") end
local call = this_call()
if not s.r then
  if s.rt == call then
    advance(s)
    return reply(s, 'ok', s.rl)
  end
  return refuse(s, 'nothing', 'Cannot resume: no resolved checkpoint')
end
local holder = claim_gone(s)
if holder then return refuse(s, 'unclaimed', 'Cannot resume: the claim is gone', holder) end

note(s)
local answer = redis.call('HGET', K_SESSION_ANSWERS .. sid, s.r)
unset(s, 'r')
emit(events_max, 'session_resume', sid, 'w', s.w, 'at', s.a, 'by', aid)
advance(s, 'rl', answer, 'rt', call)
return reply(s, 'ok', answer)
