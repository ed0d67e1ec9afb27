--[[
purpose:   Sets a checkpoint of the current activity that waits for its answer; its timers start now.
guarantee: At most one waits at a time. The same call made again gets the same handle, also once it was answered,
           until somebody resumes from the answer; nor is asked again what was answered in this visit before another
           agent took the session over. `again` asks in both cases.
args:      sid aid act seq entry ttl_ms events_max checkpoint again problem
reply:     {ok | answered | active | superseded | unclaimed | moved | failed, now, q, activity, condition, pending,
           completed, {yielded at, q of the handle, 1: by this call, 0: before} | the earlier answer in JSON | who holds
           the item now}
errors:    UNKNOWN_SESSION
--]]
-- @include claims

local s = find(sid)
if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
if superseded(s) then return refuse(s, 'superseded', 'Superseded') end
local call = this_call(checkpoint)
if s.bt == call and (s.b or s.r and again ~= '1') then
  return reply(s, 'ok', {tonumber(s.by), tonumber(s.bq), 0})
end
if s.b then
  return refuse(s, 'active', "Cannot yield checkpoint '" .. checkpoint .. "': Checkpoint '" .. s.b
    .. "' is already active")
end
if problem ~= '' then return refuse(s, 'failed', problem) end
if act ~= s.a then return refuse(s, 'moved', "Cannot yield checkpoint '" .. checkpoint .. "': the session has moved on") end
local holder = claim_gone(s)
if holder then return refuse(s, 'unclaimed', "Cannot yield checkpoint '" .. checkpoint .. "': the claim is gone", holder) end

if s.hq and again ~= '1' then
  local earlier = redis.call('HGET', K_SESSION_ANSWERS .. sid, act .. '/' .. checkpoint)
  local visit, q = string.match(earlier or '', '^%[%d+,(%d+),(%d+),')
  if earlier and visit == s.n and tonumber(q) < tonumber(s.hq) then
    note(s)
    advance(s)
    return reply(s, 'answered', earlier)
  end
end

note(s)
if s.r then unset(s, 'r') end
advance(s, 'b', checkpoint, 'by', whole(now), 'bq', whole(s.q + 1), 'bt', call)
emit(events_max, 'session_yield', sid, 'w', s.w, 'at', act, 'cp', checkpoint, 'by', aid)
return reply(s, 'ok', {now, tonumber(s.q), 1})
