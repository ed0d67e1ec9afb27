--[[
purpose:   Reads an instance, and how an operation on it ended.
guarantee: A consistent snapshot. Extends the retention of a session. A waiter is notified when the operation
           in progress is over.
args:      workflow operation waiter
           operation = the one whose ending is wanted, '' for none
reply:     Instance (store/instances.py), or {}: there is none
errors:    none
full:      a read that writes only a few bytes
--]]
local retention = require 'retention'
local waiters = require 'waiters'

local EVIDENCE_SHOWN = 20
-- See instances.lua.
local FIELDS = {'o', 's', 'n', 'u', 'h', 'z', 'v', 't', 'd', 'k', 'c', 'ct', 'cs', 'x', 'y', 'so'}

-- Open approvals from their ids; fields: see approvals.lua.
local function read_approvals(run, ids)
  local approvals = {}
  for id in string.gmatch(ids, '%S+') do
    local queue, distinct, requester, asked_at, declined =
      unpack(redis.call('HMGET', run.keys.gate_approval .. id, 'q', 'd', 'r', 't', 'm'))
    if queue then
      approvals[#approvals + 1] = {id, queue, distinct == '1', requester, tonumber(asked_at), declined or ''}
    end
  end
  return approvals
end

-- Does not use `read`, because it writes a little.
return function(run, workflow, operation, waiter)
  local kind, status, definition, creator, bundle, state, version, started, deadline, nesting, under_way, transition,
    since, outcome, session_ms, owner = unpack(redis.call('HMGET', run.keys.run .. workflow, unpack(FIELDS)))
  if kind ~= 'gateway' then return cmsgpack.pack({}) end
  if session_ms and status == 'r' then retention.keep(run, workflow, session_ms) end
  if under_way then waiters.add(run, workflow, waiter) end
  local context, input, evidence, failure, failed_at, open, kept =
    unpack(redis.call('HMGET', run.keys.gate_data .. workflow, 'c', 'n', 'v', 'f', 'fa', 'o', 'r'))
  local last_evidence = redis.call('LRANGE', run.keys.gate_evidence .. workflow, -EVIDENCE_SHOWN, -1)
  local ending = operation ~= '' and redis.call('GET', run.keys.gate_ending .. operation) or ''
  return cmsgpack.pack({run.now, status, definition, creator, bundle, state, tonumber(version), tonumber(started),
    tonumber(deadline or 0), tonumber(nesting or 0), under_way or '', transition or '', tonumber(since or 0),
    outcome or '', context or '{}', input or '{}', evidence or '{}', failure or '', tonumber(failed_at or 0),
    last_evidence, read_approvals(run, open or ''), ending, tonumber(session_ms or 0), kept or '[]', owner or ''})
end
