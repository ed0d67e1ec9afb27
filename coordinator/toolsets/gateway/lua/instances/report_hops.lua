--[[
purpose:   Records outcomes of executors that a worker reports, and hands it the next steps.
guarantee: An advance is written only under the step's current attempt and the token of its operation, so once;
           all at once: context, state, version, evidence, approvals, audit and the next step.
args:      run.engine want turn reports
           want, turn = see taking.lua of steps
           reports = packed {step, attempt, how, result as JSON, commit or delay ms}; how is D done, F failed for
           good (both with a commit, see `planned` below), Y failed, to be retried, B not executed
reply:     Taken (steps/store.py), packed, then its specs; results: 0 rejected, the worker no longer holds the step; 1
           recorded; 2 the operation was over already
errors:    none
--]]
local advances = require 'advances'
local attempts = require 'attempts'
local audit = require 'audit'
local events = require 'events'
local handoff = require 'handoff'
local instances = require 'instances'
local steps = require 'steps'
local taking = require 'taking'

local REFUSED, RECORDED, OVER = 0, 1, 2
local UNPLANNED = '{"code":"EXECUTOR_FAILED","message":"What follows could not be planned.","details":' ..
  '{"errorClass":"permanent_error"}}'
local UNPLANNED_KEEP_MS = 60000
local MOVED_MS = 50 -- until a timeout that found the instance moved is planned again
local FAILED_MS, FAILED_MAX_MS = 500, 3600000 -- until one that could not be planned is; doubles with each attempt

-- The plan of a commit (Commit in run_kind.py; its first five fields are those of any plan): an advance (nil: planning
-- failed), keep ms, retention ms, and the ending of the operation that a timeout stops.
local function planned(commit)
  return unpack(commit, 6, 9)
end

-- Handles the outcome of the step that waits for an instance's deadline.
local function settle_timer(run, step, inst, commit)
  local adv, keep_ms, retention_ms, late = planned(commit)
  if not (inst and inst.status == 'r' and inst.deadline) then
    steps.discard(run, step)
  elseif adv and inst.version ~= adv.base then
    attempts.give_back(run, step, MOVED_MS)
  elseif adv and inst.deadline <= run.now then
    steps.discard(run, step)
    advances.apply_timeout(run, inst, adv, keep_ms, retention_ms, late)
  else
    -- Given up, or too early because the clock was set back. Retried: nothing else moves an instance that nobody reads.
    step.v, step.c = nil, nil
    attempts.give_back(run, step, math.min(FAILED_MS * 2 ^ step.f, FAILED_MAX_MS))
  end
end

-- Handles the outcome of an executor.
local function settle_hop(run, step, inst, result, commit)
  local adv, keep_ms, retention_ms = planned(commit)
  if adv then
    steps.discard(run, step)
    advances.apply(run, inst, adv, keep_ms, retention_ms)
  elseif step.a and string.sub(step.a, 1, 10) == '{"failure"' then
    steps.discard(run, step)
    local ending = '{"state":' .. cjson.encode(inst.state) .. ',"version":' .. inst.version .. ',"error":' .. UNPLANNED
    instances.end_operation(run, inst, ending .. '}', UNPLANNED_KEEP_MS)
    events.emit(run, 'gateway_failed', inst.id, 's', inst.state, 'v', inst.version)
  else
    -- It ended before the worker had read the definitions: the step comes again with its outcome.
    step.v, step.t, step.a = nil, nil, '{"failure":' .. result .. '}'
    attempts.give_back(run, step, 0)
  end
end

-- Settles one report, and returns its result.
local function settle(run, id, attempt, how, result, commit_or_delay)
  local step = attempts.running(run, id, attempt)
  if not step then return REFUSED end
  local inst, timer = instances.load(run, step.r), step.k == 't'
  if not timer and not (inst and inst.operation == step.k and inst.step == id) then
    steps.discard(run, step)
    return OVER
  end
  if how == 'B' or timer and how == 'Y' then
    attempts.give_back(run, step, commit_or_delay)
  elseif how == 'Y' then
    audit.add(run, inst.id, step.k, '', 'executor.retrying', '{"attempt":' .. attempt .. ',"delayMs":' ..
      commit_or_delay .. ',"failure":' .. result .. '}')
    attempts.fail(run, step, commit_or_delay)
  elseif timer then
    settle_timer(run, step, inst, commit_or_delay)
  else
    settle_hop(run, step, inst, result, commit_or_delay)
  end
  return RECORDED
end

return function(run, want, turn, reports)
  local results = {}
  for n, report in ipairs(cmsgpack.unpack(reports)) do results[n] = settle(run, unpack(report)) end
  handoff.refill(run)
  local to_relay = taking.take(run, tonumber(want), turn)
  return taking.reply(run, results, to_relay)
end
