--[[
purpose:   Makes a session, as a child of another or bound to a work item where these are given.
guarantee: A bound session begins under a live claim of the actor. An item has at most one open session for each
           workflow: where there is one, nothing is made.
args:      sid aid act seq entry ttl_ms events_max workflow version problem parent parent_workflow parent_activity
           parent_version parent_entry item actor fence
           act is '' and seq 0; parent and item '' for none; fence 0 for none shown
reply:     {ok | exists | no_item | unclaimed | held | stale_fence, now, q, activity, condition, pending, completed,
           {whether the parent is known, lease fence or 0, lease expires or 0} | when the claim of another expires}
errors:    none
--]]
-- @include claims

local s = {id = sid, a = '', c = '', q = '0'}
local lease
if item ~= '' then
  local why
  why, lease = unfit(item, actor, fence)
  if why then return reply(s, why, lease and lease.expires) end
  if bound_session(item, workflow) then return reply(s, 'exists') end
end
set(s, 'w', workflow, 'v', version, 'a', '', 'c', '', 'q', '0', 'n', '0', 'tc', '0', 'x', whole(now))
redis.call('PEXPIRE', K_SESSION .. sid, ttl_ms)
local above = parent ~= '' and find(parent)
if above then
  set(s, 'ps', parent, 'pw', parent_workflow, 'pa', parent_activity, 'pv', parent_version)
  note(above, nil, parent_entry)
end
emit(events_max, 'session_start', sid, 'w', workflow, 'by', aid, 'parent', above and parent or '')
note(s, problem ~= '' and problem)
if lease then bind(s, item, lease, aid) end
return reply(s, 'ok', {above and true or false, lease and lease.fence or 0, lease and lease.expires or 0})
