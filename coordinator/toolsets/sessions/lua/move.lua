--[[
purpose:   Takes a session to an activity, or to its end, and cuts off the trace of what came before.
guarantee: Not while a checkpoint waits for its answer, whatever the token shown says. The cut is made in the same
           step, so each event is in exactly one trace token. The same call made again changes nothing and gets
           the same trace; made again with another report, it corrects the one before and enters nothing twice.
           A completed session opens again only if its item has no other open one of its workflow.
args:      sid aid act seq entry ttl_ms events_max target condition report ends problem
           report: a digest of all that is said about the transition   ends 1: the activity left was the last one,
           target only says so
reply:     {ok | blocked | superseded | unclaimed | exists | failed, now, q, activity, condition, pending, completed,
           {first, past the last, events, where the session was if the token did not know} | who holds the item now}
errors:    UNKNOWN_SESSION
--]]
-- @include claims

local SEGMENT_MAX, SEGMENT_BYTES = 1000, 500000

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

local again = s.z and s.i and ends ~= '1'
if again and bound_session(s.i, s.w) then
  return refuse(s, 'exists', "Cannot transition to '" .. target .. "': the item has another open session")
end

-- The events from `first` to before `past`, as far as they fit into a token; older ones may be gone.
local function events(first, past)
  local base = tonumber(s.tb or 0)
  first = math.max(first, base)
  past = math.min(past, first + SEGMENT_MAX)
  local found = past > first and redis.call('LRANGE', K_SESSION_TRACE .. sid, first - base, past - base - 1) or {}
  local fit, bytes = {}, 0
  for n, event in ipairs(found) do
    bytes = bytes + #event
    if bytes > SEGMENT_BYTES then break end
    fit[n] = event
  end
  return {first, first + #fit, fit, ''}
end

local call = this_call(target)
if s.tk == call and s.tr == report then
  advance(s)
  return reply(s, 'ok', events(tonumber(s.tp), tonumber(s.tc)))
end

local segment = events(tonumber(s.tc), math.huge)
local said = {'c', condition, 'tp', whole(segment[1]), 'tc', whole(segment[2]), 'tk', call, 'tr', report}
if s.tk == call then
  act = s.a -- the token is not behind: the session is where this call took it
  note(s)
  advance(s, unpack(said))
  return reply(s, 'ok', segment)
end
if act ~= s.a then segment[4] = s.a end
note(s)

local left, known = s.d and cmsgpack.unpack(s.d) or {}, act == ''
for _, activity in ipairs(left) do known = known or activity == act end
if not known then left[#left + 1] = act end
if s.r or s.z then unset(s, 'r', 'z') end
if ends == '1' then
  advance(s, 'a', act, 'z', '1', 'd', cmsgpack.pack(left), unpack(said))
  emit(events_max, 'session_complete', sid, 'w', s.w, 'from', act, 'by', aid)
else
  advance(s, 'a', target, 'n', whole(s.n + 1), 'd', cmsgpack.pack(left), unpack(said))
  if again then point(s) end
  emit(events_max, 'session_move', sid, 'w', s.w, 'from', act, 'to', target, 'by', aid)
end
return reply(s, 'ok', segment)
