--[[
purpose:   Makes a session, as a child of another or bound to a work item where these are given; or takes over one of
           another fleet, as its token tells of it.
guarantee: A bound session begins under a live claim of the actor. An item has at most one open session for each
           workflow: where there is one, nothing is made. Of calls that take over the same session, one makes it. Its
           checkpoint waits here too; the timers of that start now.
args:      sid aid act seq entry ttl_ms events_max workflow version problem parent parent_workflow parent_activity
           parent_version parent_entry item actor fence adopted condition checkpoint
           parent, item and checkpoint '' for none; fence 0 for none shown; adopted 1: one of another fleet, of whose
           token act, seq, condition and checkpoint are; else act, condition and checkpoint are '' and seq is 0
reply:     {ok | exists | known | no_item | unclaimed | held | stale_fence, now, q, activity, condition, pending, completed,
           {whether the parent is known, lease fence or 0, lease expires or 0} | when the claim of another expires}
errors:    none
--]]
-- @include claims

if adopted == '1' then
  local known = find(sid)
  if known then return reply(known, 'known') end
end
local s = {id = sid, a = act, c = condition, q = seq}
local lease
if item ~= '' then
  local why
  why, lease = unfit(item, actor, fence)
  if why then return reply(s, why, lease and lease.expires) end
  if bound_session(item, workflow) then return reply(s, 'exists') end
end
set(s, 'w', workflow, 'v', version, 'a', act, 'c', condition, 'q', seq, 'n', act == '' and '0' or '1', 'tc', '0',
  'x', whole(now))
if checkpoint ~= '' then set(s, 'b', checkpoint, 'by', whole(now), 'bq', seq) end
redis.call('PEXPIRE', K_SESSION .. sid, ttl_ms)
local above = parent ~= '' and (adopted == '1' or find(parent))
if above then
  set(s, 'ps', parent, 'pw', parent_workflow, 'pa', parent_activity, 'pv', parent_version)
  if adopted ~= '1' then note(above, nil, parent_entry) end
end
emit(events_max, 'session_start', sid, 'w', workflow, 'by', aid, 'parent', above and parent or '')
note(s, problem ~= '' and problem)
if lease then bind(s, item, lease, aid) end
return reply(s, 'ok', {above and true or false, lease and lease.fence or 0, lease and lease.expires or 0})
