--[[
purpose:   Records outcomes of steps that a worker reports, and hands it the next steps.
guarantee: An outcome is recorded only under the step's current attempt, so once; its successors, the count of
           its join, the end of its flow and the handoff to the workers are written atomically with it.
args:      run.engine want turn reports
           want, turn = see taking.lua of steps
           reports = packed {step, attempt, how, result as JSON, plan or delay ms}; how is D done, F failed
           for good (both with a plan), Y failed, to be retried, B not executed (attempts.lua of steps)
reply:     Taken (steps/store.py), packed, then its specs; results: 0 rejected, the worker no longer holds the step; 1
           recorded; 2 recorded, but the flow had ended; -1 a defect, see the server's log
errors:    none
--]]
local attempts = require 'attempts'
local flows = require 'flows'
local handoff = require 'handoff'
local history = require 'history'
local plans = require 'plans'
local step_events = require 'step_events'
local steps = require 'steps'
local taking = require 'taking'

local REFUSED, RECORDED, OVER, DEFECT = 0, 1, 2, -1

-- Settles one report, and returns its result.
local function settle(run, id, attempt, how, outcome, plan_or_delay)
  local st = attempts.running(run, id, attempt)
  if not st then return REFUSED end
  local flow = steps.load_owner(run, st.r)
  if not flow then
    steps.discard(run, st)
    return REFUSED
  end
  local over = not flows.is_open(flow)
  if how == 'B' and not over then attempts.give_back(run, st, plan_or_delay) return RECORDED end
  if how == 'Y' and not over then attempts.fail(run, st, plan_or_delay) return RECORDED end
  if how == 'B' then history.cancel(run, st) return OVER end
  local done, complete, failure = how == 'D', false, ''
  if not over then complete, failure = unpack(plan_or_delay, 4, 5) end -- of a plan, see plans.lua of steps
  -- A retry of the flow reruns the step that ended it, also if no branch matched its result.
  local ends = failure ~= '' or over and not done
  history.record(run, st, done and 'D' or 'F', outcome, ends and 'f' or over and 'o' or nil)
  step_events.emit(run, done and 'step_done' or 'step_failed', st)
  if over then return OVER end
  plans.follow(run, flow, plan_or_delay)
  if complete then
    flows.finish(run, flow, 'c')
  elseif failure ~= '' then
    flows.finish(run, flow, 'f', failure)
  end
  return RECORDED
end

return function(run, want, turn, reports)
  local results = {}
  for n, report in ipairs(cmsgpack.unpack(reports)) do
    -- A defect in one report must not block the others.
    local sound, result = pcall(settle, run, unpack(report))
    if not sound then redis.log(redis.LOG_WARNING, 'step ' .. tostring(report[1]) .. ': ' .. tostring(result)) end
    results[n] = sound and result or DEFECT
  end
  handoff.refill(run)
  local to_relay = taking.take(run, tonumber(want), turn)
  return taking.reply(run, results, to_relay)
end
