--[[
purpose:   Runs the failed and cancelled steps of a failed or cancelled flow again, under the same ids.
guarantee: Steps that are done are not executed again, but for one whose result no branch matched; what should have
           followed those that ended after the flow did follows now. No step is in the history twice.
args:      request fingerprint keep_ms engine flow actor
reply:     {steps that were opened again, the flow's status before, whether there is something for the relay}
           or {}: unknown
errors:    REQUEST_ID_REUSED
--]]
-- @include idempotency
-- @include flow
local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local run = load_run(flow)
if not run then return cmsgpack.pack({}) end
local reply, kept, again = {0, run.s, false}, {}, {}
if run.s == 'f' or run.s == 'x' then
  for _, packed in ipairs(redis.call('LRANGE', K_HISTORY .. flow, 0, -1)) do
    local number, key, _, attempt, _, started, _, result, by, more = unpack(cmsgpack.unpack(packed), 1, 10)
    if not more then
      kept[#kept + 1] = packed
    elseif more.u == 'n' then
      redis.call('HINCRBY', K_RUN .. flow, 'i', -1) -- it comes again, and was the last that was created
    else
      local st = {id = whole(flow + number), r = flow, k = key, f = whole(attempt + 1), e = at, q = more.q, z = more.z,
        a = more.a, t = more.t, y = more.y}
      local long = type(result) == 'number'
      if more.u == 'o' then
        st.v, st.a = 'recorded', long and redis.call('HGET', K_RESULTS .. flow, number) or result
        st.b, st.g = started and whole(flow + started), by or nil
      end
      if long then redis.call('HDEL', K_RESULTS .. flow, number) end
      again[#again + 1] = st
    end
  end
end
if #again > 0 then
  redis.call('DEL', K_HISTORY .. flow)
  if #kept > 0 then redis.call('RPUSH', K_HISTORY .. flow, unpack(kept)) end
  redis.call('ZREM', K_ENDED, flow)
  redis.call('HDEL', K_RUN .. flow, 'e', 'x')
  set_status(run, 'r')
  emit(env.cap, 'flow_retried', flow, 'a', actor)
  for _, st in ipairs(again) do
    if st.t == 'g' and not st.v then open_gate(st) else make_ready(st) end
  end
  reply[1], reply[3] = #again, hand_over()
end
return remember(request, fingerprint, 'D', cmsgpack.pack(reply), keep_ms)
