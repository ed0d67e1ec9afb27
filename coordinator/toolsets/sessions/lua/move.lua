--[[
purpose:   Takes a session to an activity, or to its end, and cuts off the trace of what came before.
guarantee: Not while a checkpoint waits for its answer, whatever the token shown says. The cut is made in the same
           step, so each event is in exactly one trace token. The same call made again changes nothing and gets
           the same trace.
args:      sid aid act seq entry ttl_ms events_max target condition ends problem
           ends 1: the activity left was the last one, target only says so
reply:     {ok | blocked | superseded | unclaimed | failed, now, q, activity, condition, pending, completed,
           {first, past the last, events, where the session was if the token did not know} | holder of the item or ''}
errors:    UNKNOWN_SESSION
--]]
-- @include claims

local SEGMENT_MAX = 1000

local s = find(sid)
if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
if superseded(s) then return refuse(s, 'superseded', 'Superseded') end
if s.b then
  return refuse(s, 'blocked', "Cannot transition to '" .. target .. "': Active checkpoint '" .. s.b
    .. "' on activity '" .. s.a .. "'")
end
if problem ~= '' then return refuse(s, 'failed', problem) end
local holder = claim_gone(s)
if holder then return refuse(s, 'unclaimed', "Cannot transition to '" .. target .. "': the claim is gone", holder) end

local function events(first, past)
  local base = tonumber(s.tb or 0)
  first = math.max(first, base)
  if past <= first then return {past, past, {}, ''} end
  return {first, past, redis.call('LRANGE', K_SESSION_TRACE .. sid, first - base, past - base - 1), ''}
end

local call = this_call(target)
if s.tk == call then
  advance(s)
  return reply(s, 'ok', events(tonumber(s.tp), tonumber(s.tc)))
end

local first = math.max(tonumber(s.tc), tonumber(s.tb or 0))
local past = math.min(first + SEGMENT_MAX, tonumber(s.tb or 0) + redis.call('LLEN', K_SESSION_TRACE .. sid))
local segment = events(first, past)
if act ~= '' and act ~= s.a then segment[4] = s.a end
note(s)

local left, known = s.d and cmsgpack.unpack(s.d) or {}, false
for _, activity in ipairs(left) do known = known or activity == act end
if act ~= '' and not known then
  left[#left + 1] = act
  set(s, 'd', cmsgpack.pack(left))
end
unset(s, 'r', 'z')
if ends == '1' then
  set(s, 'a', act, 'c', condition, 'z', '1', 'tp', whole(first), 'tc', whole(past), 'tk', call)
  emit(events_max, 'session_complete', sid, 'w', s.w, 'from', act, 'by', aid)
else
  set(s, 'a', target, 'c', condition, 'n', tonumber(s.n) + 1, 'tp', whole(first), 'tc', whole(past), 'tk', call)
  emit(events_max, 'session_move', sid, 'w', s.w, 'from', act, 'to', target, 'by', aid)
end
advance(s)
return reply(s, 'ok', segment)
