--[[
purpose:   Creates a session, optionally as a child of another or bound to a work item; or adopts one of another
           fleet from its token.
guarantee: A bound session begins under a live claim of the actor. An item has at most one open session per
           workflow: if there is one, nothing is created. Of calls that adopt the same session, one creates it. Its
           checkpoint is pending here too; its timers start now.
args:      run.sid run.aid run.act run.seq run.entry run.ttl_ms run.events_max workflow version problem parent
           parent_workflow parent_activity parent_version parent_entry item actor fence adopted condition checkpoint
           parent, item and checkpoint '' for none; fence 0 for none shown; adopted 1: one of another fleet, of whose
           token act, seq, condition and checkpoint are; else act, condition and checkpoint are '' and seq is 0
reply:     SessionState (store/sessions.py): ok with BegunSession (store/sessions.py), exists, known, no_item,
           unclaimed, held or stale_fence
errors:    none
--]]
local bindings = require 'bindings'
local clock = require 'clock'
local events = require 'events'
local sessions = require 'sessions'

return function(run, workflow, version, problem, parent, parent_workflow, parent_activity, parent_version,
    parent_entry, item, actor, fence, adopted, condition, checkpoint)
  if adopted == '1' then
    local known = sessions.find(run, run.sid)
    if known then return sessions.reply(run, known, 'known') end
  end
  local s = {id = run.sid, a = run.act, c = condition, q = run.seq}
  local lease
  if item ~= '' then
    local why
    why, lease = bindings.unfit(run, item, actor, fence)
    if why then return sessions.reply(run, s, why, lease and lease.expires) end
    if bindings.bound_session(run, item, workflow) then return sessions.reply(run, s, 'exists') end
  end
  local visits = run.act == '' and '0' or '1'
  sessions.set(run, s, 'w', workflow, 'v', version, 'a', run.act, 'c', condition, 'q', run.seq, 'n', visits, 'tc', '0',
    'x', clock.whole(run.now), 'la', run.aid)
  if checkpoint ~= '' then sessions.set(run, s, 'b', checkpoint, 'by', clock.whole(run.now), 'bq', run.seq) end
  sessions.begin(run, s)
  local above = parent ~= '' and (adopted == '1' or sessions.find(run, parent))
  if above then
    sessions.set(run, s, 'ps', parent, 'pw', parent_workflow, 'pa', parent_activity, 'pv', parent_version)
    if adopted ~= '1' then sessions.note(run, above, nil, parent_entry) end
  end
  events.emit(run, 'session_start', run.sid, 'w', workflow, 'by', run.aid, 'parent', above and parent or '')
  sessions.note(run, s, problem ~= '' and problem)
  if lease then bindings.bind(run, s, item, lease, run.aid) end
  sessions.list(run, s)
  sessions.trim_list(run)
  local fence_now, expires = lease and lease.fence or 0, lease and lease.expires or 0
  return sessions.reply(run, s, 'ok', {above and true or false, fence_now, expires})
end
