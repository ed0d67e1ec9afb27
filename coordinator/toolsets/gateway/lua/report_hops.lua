--[[
purpose:   A worker says what became of executors of this project's instances, and takes the next steps.
guarantee: What follows is written only under the step's present attempt and the token of its operation, so once,
           and all of it in the same step: context, state, version, evidence, approvals, audit, what comes next.
args:      engine want turn reports
           want, turn = see include/take.lua of steps
           reports = packed {step, attempt, how, result as JSON, commit or delay ms}; how is D done, F failed for
           good (both with a commit: a plan, its sixth field an advance or false, then keep ms, retention ms and
           the ending of whatever a timeout stops), Y failed and to be tried again, B not executed
reply:     what include/take.lua of steps says; results: 0 refused, the step is no longer the worker's;
           1 recorded; 2 the operation was over, nothing follows
errors:    none
--]]
-- @include advance
-- @include attempts
-- @include take
local UNPLANNED = '{"code":"EXECUTOR_FAILED","message":"What follows could not be planned.","details":' ..
  '{"errorClass":"permanent_error"}}'
local RETRY_MS = 50 -- when a timeout is planned again that found the instance moved
local FAILED_MS, FAILED_MOST_MS = 500, 3600000 -- and one that was not planned: later with each attempt

-- The step that waits for an instance's deadline has been carried out.
local function deadline(st, inst, how, commit)
  local again = how == 'B' or how == 'Y'
  local adv = not again and commit[6]
  if again then
    give_back(st, commit)
  elseif not (inst and inst.s == 'r' and inst.d) then
    discard(st)
  elseif adv and inst.v ~= adv[2] then
    give_back(st, RETRY_MS)
  elseif adv and tonumber(inst.d) <= now then
    discard(st)
    take_over(inst, adv, commit[7], commit[8], commit[9])
  else
    -- Given up, or too early since the clock was set back: nobody else moves an instance that nobody looks at.
    st.v, st.c = nil, nil
    give_back(st, math.min(FAILED_MS * 2 ^ st.f, FAILED_MOST_MS))
  end
  return 1
end

local function settle(id, attempt, how, result, commit)
  local st = running(id, attempt)
  if not st then return 0 end
  local inst = load_instance(st.r)
  if st.k == 't' then return deadline(st, inst, how, commit) end
  if not inst or inst.c ~= st.k or inst.a ~= id then
    discard(st)
    return 2
  end
  if how == 'B' then
    give_back(st, commit)
  elseif how == 'Y' then
    audit(env.cap, inst.id, st.k, '', 'executor.retrying', '{"attempt":' .. attempt .. ',"delayMs":' .. commit ..
      ',"failure":' .. result .. '}')
    fail_attempt(st, commit)
  elseif commit[6] then
    discard(st)
    apply(inst, commit[6], commit[7], commit[8])
  elseif st.a and string.sub(st.a, 1, 10) == '{"failure"' then
    discard(st)
    finish(inst, '{"state":' .. cjson.encode(inst.z) .. ',"version":' .. inst.v .. ',"error":' .. UNPLANNED .. '}', 60000)
  else
    -- What ended it came before the worker had the definitions: it comes again, as what is known of the step.
    st.v, st.t, st.a = nil, nil, '{"failure":' .. result .. '}'
    give_back(st, 0)
  end
  return 1
end

local results = {}
for n, report in ipairs(cmsgpack.unpack(reports)) do results[n] = settle(unpack(report)) end
refill()
local to_relay = take(tonumber(want), turn)
return taken_reply(results, to_relay)
