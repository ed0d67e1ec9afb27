--[[
purpose:   Runs the failed and cancelled steps of a failed or cancelled flow again, under the same ids.
guarantee: Done steps are not executed again, except one whose result no branch matched. Successors of steps that
           ended after the flow are created now. No step is in the history twice.
args:      request run.engine id actor reason
           reason = why, kept in the event
reply:     _Changed (store/flows.py), or {}: unknown
errors:    REQUEST_ID_REUSED
--]]
local change = require 'change'
local clock = require 'clock'
local events = require 'events'
local flows = require 'flows'
local handoff = require 'handoff'
local history = require 'history'
local owners = require 'owners'
local plans = require 'plans'
local steps = require 'steps'

-- Restores a step from its row in the history, for another attempt (rows: see history.lua of steps).
local function reopened(run, id, row)
  local number, key, _, attempt, _, started, _, result, by, more = unpack(row, 1, 10)
  local st = {id = clock.whole(id + number), r = id, k = key, f = clock.whole(attempt + 1), e = run.at, q = more.q,
    z = more.z, a = more.a, t = more.t, y = more.y}
  local long = type(result) == 'number'
  if more.u == 'o' then
    st.v, st.a = 'recorded', long and redis.call('HGET', run.keys.results .. id, number) or result
    st.b, st.g = started and clock.whole(id + started), by or nil
  end
  if long then history.drop_result(run, id, number) end
  return st
end

-- Scans the history. Returns the packed rows to keep, and the reopened steps.
local function split_history(run, id)
  local kept, again = {}, {}
  for _, packed in ipairs(redis.call('LRANGE', run.keys.history .. id, 0, -1)) do
    local row = cmsgpack.unpack(packed)
    local more = row[10]
    if not more then
      kept[#kept + 1] = packed
    elseif more.u == 'n' then
      owners.add(run, id, 'i', -1) -- it was the last one created, and is created again
    else
      again[#again + 1] = reopened(run, id, row)
    end
  end
  return kept, again
end

return function(run, request, id, actor, reason)
  return change(run, request, function()
    local flow = steps.load_owner(run, id)
    if not flow then return {}, false end
    local before = flow.s
    if before ~= 'f' and before ~= 'x' then return {0, before, false} end
    local kept, again = split_history(run, id)
    if #again == 0 then return {0, before, false} end
    history.replace(run, id, kept)
    flows.reopen(run, flow)
    events.emit(run, 'flow_retried', id, 'a', actor, 'why', reason, steps.audience(flow))
    for _, st in ipairs(again) do
      if st.t == 'g' and not st.v then plans.open_gate(run, st) else handoff.make_ready(run, st) end
    end
    return {#again, before, handoff.hand_over(run)}
  end)
end
