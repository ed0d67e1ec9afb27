--[[
purpose:   Gives an agent a token of a session that exists: by an earlier token, or by the work item it is bound to.
guarantee: The position and the checkpoint that waits are the session's own, not those of the token shown. With an
           item, only under a live claim of the actor; agents that held the session under an earlier claim lose it.
args:      sid aid act seq entry ttl_ms events_max workflow agent problem item actor fence
           sid '' for the open session of the item; aid, act and seq are those of the token shown; workflow that of
           the token. workflow '' to be told only of which workflow the item's open session is
reply:     {ok | which | none | other | superseded | no_item | unclaimed | held | stale_fence | elsewhere | exists, now, q,
           activity, condition, pending, completed,
           {session, workflow, version, parent {session, workflow, activity, version} or {},
           item or '', fence, lease expires or 0} | workflow | when the claim of another expires | who holds the item now}
errors:    UNKNOWN_SESSION
--]]
-- @include claims

local lease, why
if item ~= '' then
  why, lease = unfit(item, actor, fence)
  if why then return cmsgpack.pack({why, now, 0, '', '', '', false, lease and lease.expires or false}) end
end
local s
if sid == '' then
  s = bound_session(item, workflow)
  if not s then return cmsgpack.pack({'none', now, 0, '', '', '', false, false}) end
  if workflow == '' then return reply(s, 'which', s.w) end
  sid = s.id
else
  s = find(sid)
  if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
  if s.w ~= workflow then return reply(s, 'other') end
  if lease then
    if s.i and s.i ~= item then return reply(s, 'elsewhere', s.i) end
    local bound = bound_session(item, s.w)
    if bound and bound.id ~= sid then return reply(s, 'exists', bound.id) end
  elseif superseded(s) then
    return refuse(s, 'superseded', 'Superseded')
  elseif s.i and problem ~= '' then
    -- Whose token it is cannot be known, so it might be that of somebody who has lost the session.
    return refuse(s, 'unclaimed', 'Unclaimed', claim_gone(s) or 'other')
  end
end

-- Whom a holder lets into the session leaves it with the holder.
if has_held(s, aid) then add_holder(s, agent) end
note(s, problem ~= '' and problem)
advance(s)
if lease then bind(s, item, lease, agent) end
emit(events_max, 'session_join', sid, 'w', s.w, 'by', agent)
return reply(s, 'ok', {
  sid, s.w, s.v,
  s.ps and {s.ps, s.pw, s.pa, s.pv} or {},
  s.i or '', tonumber(s.f or 0), lease and lease.expires or 0,
})
