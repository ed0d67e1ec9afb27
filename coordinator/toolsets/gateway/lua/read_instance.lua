--[[
purpose:   Reads an instance as it stands, and how an operation on it ended.
guarantee: As of one moment. A session is kept longer with it. With a waiter, that process is told when the
           operation under way is over.
args:      workflow operation waiter
           operation = the one whose ending is read along, '' for none
reply:     {now, status, definition, creator, bundle, state, version, started, deadline, nesting, operation, its
           transition, since, outcome, context, input, evidence by kind, failure, its time, last evidence,
           approvals {id, queue, distinct, requester, asked at}, ending, session ms} or {}: there is none
errors:    none
full:      reading; the few bytes that it writes do not count
--]]
-- @include clock
-- @include waiters
local EVIDENCE_SHOWN = 20

-- Open approvals from their ids; fields: see include/approvals.lua.
local function read_approvals(ids)
  local approvals = {}
  for id in string.gmatch(ids, '%S+') do
    local queue, distinct, requester, asked_at = unpack(redis.call('HMGET', K_GATE_APPROVAL .. id, 'q', 'd', 'r', 't'))
    if queue then approvals[#approvals + 1] = {id, queue, distinct == '1', requester, tonumber(asked_at)} end
  end
  return approvals
end

-- Fields: see include/instance.lua.
local kind, status, definition, creator, bundle, state, version, started, deadline, nesting, under_way, transition,
  since, outcome, session_ms = unpack(redis.call('HMGET', K_RUN .. workflow, 'o', 's', 'n', 'u', 'h', 'z', 'v', 't',
  'd', 'k', 'c', 'ct', 'cs', 'x', 'y'))
if kind ~= 'gateway' then return cmsgpack.pack({}) end
local now = server_time()
if session_ms and status == 'r' then redis.call('ZADD', K_GATE_EXPIRY, whole(now + session_ms), workflow) end
if under_way then add_waiter(workflow, waiter) end
local context, input, evidence, failure, failed_at, open =
  unpack(redis.call('HMGET', K_GATE_DATA .. workflow, 'c', 'n', 'v', 'f', 'fa', 'o'))
local last_evidence = redis.call('LRANGE', K_GATE_EVIDENCE .. workflow, -EVIDENCE_SHOWN, -1)
local ending = operation ~= '' and redis.call('GET', K_GATE_ENDING .. operation) or ''
return cmsgpack.pack({now, status, definition, creator, bundle, state, tonumber(version), tonumber(started),
  tonumber(deadline or 0), tonumber(nesting or 0), under_way or '', transition or '', tonumber(since or 0),
  outcome or '', context or '{}', input or '{}', evidence or '{}', failure or '', tonumber(failed_at or 0),
  last_evidence, read_approvals(open or ''), ending, tonumber(session_ms or 0)})
