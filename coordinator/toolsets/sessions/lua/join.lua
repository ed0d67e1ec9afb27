--[[
purpose:   Gives an agent a token of an existing session: by an earlier token, or by its work item.
guarantee: Position and pending checkpoint are those of the session, not of the token shown. With an item, only
           under a live claim of the actor; agents that held the session under an earlier claim lose it.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max workflow agent problem item
           actor fence
           sid '' for the open session of the item; aid, act and seq are those of the token shown; workflow that of
           the token. workflow '': only returns the workflow of the item's open session
reply:     SessionState (store/sessions.py): ok with Joined (store/sessions.py), which with the workflow, none, other,
           superseded, no_item, unclaimed, held, stale_fence, elsewhere with the item, or exists with the session
errors:    UNKNOWN_SESSION
--]]
local bindings = require 'bindings'
local events = require 'events'
local sessions = require 'sessions'

return function(run, workflow, agent, problem, item, actor, fence)
  local lease, why
  if item ~= '' then
    why, lease = bindings.unfit(run, item, actor, fence)
    if why then return cmsgpack.pack({why, run.now, 0, '', '', '', false, lease and lease.expires or false}) end
  end
  local s
  if run.sid == '' then
    s = bindings.bound_session(run, item, workflow)
    if not s then return cmsgpack.pack({'none', run.now, 0, '', '', '', false, false}) end
    if workflow == '' then return sessions.reply(run, s, 'which', s.w) end
    run.sid = s.id
  else
    s = sessions.find(run, run.sid)
    if not s then return redis.error_reply('FLEET UNKNOWN_SESSION') end
    if s.w ~= workflow then return sessions.reply(run, s, 'other') end
    if lease then
      if s.i and s.i ~= item then return sessions.reply(run, s, 'elsewhere', s.i) end
      local bound = bindings.bound_session(run, item, s.w)
      if bound and bound.id ~= run.sid then return sessions.reply(run, s, 'exists', bound.id) end
    elseif bindings.superseded(run, s) then
      return sessions.refuse(run, s, 'superseded', 'Superseded')
    elseif s.i and problem ~= '' then
      -- The owner of the token is unknown: it may be an agent that has lost the session.
      return sessions.refuse(run, s, 'unclaimed', 'Unclaimed', bindings.claim_gone(run, s) or 'other')
    end
  end

  -- An agent that a holder lets in loses the session together with the holder.
  if bindings.has_held(s, run.aid) then bindings.add_holder(run, s, agent) end
  sessions.note(run, s, problem ~= '' and problem)
  sessions.advance(run, s, 'la', agent)
  sessions.list(run, s)
  if lease then bindings.bind(run, s, item, lease, agent) end
  events.emit(run, 'session_join', run.sid, 'w', s.w, 'by', agent)
  return sessions.reply(run, s, 'ok', {
    run.sid, s.w, s.v,
    s.ps and {s.ps, s.pw, s.pa, s.pv} or {},
    s.i or '', tonumber(s.f or 0), lease and lease.expires or 0,
  })
end
