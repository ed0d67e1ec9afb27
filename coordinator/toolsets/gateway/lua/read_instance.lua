--[[
purpose:   Reads an instance as it stands, and how an operation on it ended.
guarantee: As of one moment. A session is kept longer with it. With a waiter, that process is told when the
           operation under way is over.
args:      workflow operation waiter
reply:     {now, status, definition, creator, bundle, state, version, started, deadline, nesting, operation, its
           transition, since, outcome, context, input, evidence by kind, failure, its time, last evidence,
           approvals {id, queue, distinct, requester, asked at}, ending, session ms} or {}: there is none
errors:    none
full:      reading; the few bytes that it writes do not count
--]]
-- @include clock
-- @include waiters
local SHOWN = 20
local v = redis.call('HMGET', K_RUN .. workflow, 'o', 's', 'n', 'u', 'h', 'z', 'v', 't', 'd', 'k', 'c', 'ct', 'cs', 'x',
  'y')
if v[1] ~= 'gateway' then return cmsgpack.pack({}) end
local now = server_time()
if v[15] and v[2] == 'r' then redis.call('ZADD', K_GATE_EXPIRY, whole(now + v[15]), workflow) end
if v[11] then await(workflow, waiter) end
local d = redis.call('HMGET', K_GATE_DATA .. workflow, 'c', 'n', 'v', 'f', 'fa', 'o')
local approvals = {}
for id in string.gmatch(d[6] or '', '%S+') do
  local a = redis.call('HMGET', K_GATE_APPROVAL .. id, 'q', 'd', 'r', 't')
  if a[1] then approvals[#approvals + 1] = {id, a[1], a[2] == '1', a[3], tonumber(a[4])} end
end
local ending = operation ~= '' and redis.call('GET', K_GATE_ENDING .. operation) or ''
return cmsgpack.pack({now, v[2], v[3], v[4], v[5], v[6], tonumber(v[7]), tonumber(v[8]), tonumber(v[9] or 0),
  tonumber(v[10] or 0), v[11] or '', v[12] or '', tonumber(v[13] or 0), v[14] or '', d[1] or '{}', d[2] or '{}',
  d[3] or '{}', d[4] or '', tonumber(d[5] or 0), redis.call('LRANGE', K_GATE_EVIDENCE .. workflow, -SHOWN, -1),
  approvals, ending or '', tonumber(v[15] or 0)})
