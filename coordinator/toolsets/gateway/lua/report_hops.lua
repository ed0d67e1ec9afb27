--[[
purpose:   A worker says what became of executors of this project's instances, and takes the next steps.
guarantee: What follows is written only under the step's present attempt and the token of its operation, so once,
           and all of it in the same step: context, state, version, evidence, approvals, audit, what comes next.
args:      engine want turn reports
           want, turn = see include/take.lua of steps
           reports = packed {step, attempt, how, result as JSON, commit or delay ms}; how is D done, F failed for
           good (both with a commit, see `planned` below), Y failed and to be tried again, B not executed
reply:     what include/take.lua of steps says; results: 0 refused, the step is no longer the worker's;
           1 recorded; 2 the operation was over, nothing follows
errors:    none
--]]
-- @include advance
-- @include attempts
-- @include take
local UNPLANNED = '{"code":"EXECUTOR_FAILED","message":"What follows could not be planned.","details":' ..
  '{"errorClass":"permanent_error"}}'
local UNPLANNED_KEEP_MS = 60000
local MOVED_MS = 50 -- after which a timeout is planned again that found the instance moved
local FAILED_MS, FAILED_MAX_MS = 500, 3600000 -- and one that was not planned: later with each attempt

-- What a commit plans (Commit in run_kind.py, whose first five fields are those of any plan): an advance, or nil
-- where nothing could be planned; keep ms, retention ms, and the ending of whatever a timeout stops.
local function planned(commit)
  return unpack(commit, 6, 9)
end

-- The step that waits for an instance's deadline has been carried out.
local function settle_timer(step, inst, commit)
  local adv, keep_ms, retention_ms, late = planned(commit)
  if not (inst and inst.status == 'r' and inst.deadline) then
    discard(step)
  elseif adv and inst.version ~= adv.base then
    give_back(step, MOVED_MS)
  elseif adv and inst.deadline <= now then
    discard(step)
    apply_timeout(inst, adv, keep_ms, retention_ms, late)
  else
    -- Given up, or too early since the clock was set back: nobody else moves an instance that nobody looks at.
    step.v, step.c = nil, nil
    give_back(step, math.min(FAILED_MS * 2 ^ step.f, FAILED_MAX_MS))
  end
end

-- An executor has come to its end.
local function settle_hop(step, inst, result, commit)
  local adv, keep_ms, retention_ms = planned(commit)
  if adv then
    discard(step)
    apply_advance(inst, adv, keep_ms, retention_ms)
  elseif step.a and string.sub(step.a, 1, 10) == '{"failure"' then
    discard(step)
    end_operation(inst, '{"state":' .. cjson.encode(inst.state) .. ',"version":' .. inst.version .. ',"error":' ..
      UNPLANNED .. '}', UNPLANNED_KEEP_MS)
  else
    -- What ended it came before the worker had the definitions: it comes again, as what is known of the step.
    step.v, step.t, step.a = nil, nil, '{"failure":' .. result .. '}'
    give_back(step, 0)
  end
end

-- Settles one report, and returns its result.
local function settle(id, attempt, how, result, commit_or_delay)
  local step = running(id, attempt)
  if not step then return 0 end
  local inst, timer = load_instance(step.r), step.k == 't'
  if not timer and not (inst and inst.operation == step.k and inst.step == id) then
    discard(step)
    return 2
  end
  if how == 'B' or timer and how == 'Y' then
    give_back(step, commit_or_delay)
  elseif how == 'Y' then
    audit(env.cap, inst.id, step.k, '', 'executor.retrying', '{"attempt":' .. attempt .. ',"delayMs":' ..
      commit_or_delay .. ',"failure":' .. result .. '}')
    fail_attempt(step, commit_or_delay)
  elseif timer then
    settle_timer(step, inst, commit_or_delay)
  else
    settle_hop(step, inst, result, commit_or_delay)
  end
  return 1
end

local results = {}
for n, report in ipairs(cmsgpack.unpack(reports)) do results[n] = settle(unpack(report)) end
refill()
local to_relay = take(tonumber(want), turn)
return taken_reply(results, to_relay)
