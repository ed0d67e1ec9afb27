--[[
purpose:   A worker says what became of steps of this project's flows, and takes the next ones.
guarantee: An outcome is recorded only under the step's present attempt, so once; what follows it, the count
           of its join, the end of its flow and the handoff to the workers are in the same step.
args:      engine want turn reports
           want, turn = see include/take.lua of steps
           reports = packed {step, attempt, how, result as JSON, plan or delay ms}; how is D done, F failed
           for good (both with a plan), Y failed and to be tried again, B not executed
reply:     what include/take.lua of steps says; results: 0 refused, the step is no longer the worker's;
           1 recorded; 2 recorded, but the flow had ended and nothing follows; -1 a defect, see the server's log
errors:    none
--]]
-- @include flow
-- @include take
local function settle(id, attempt, how, result, what)
  local st = running(id, attempt)
  if not st then return 0 end
  local run = load_run(st.r)
  if not run then
    discard(st)
    return 0
  end
  local over = not is_open(run)
  if how == 'B' and not over then give_back(st, what) return 1 end
  if how == 'Y' and not over then fail_attempt(st, what) return 1 end
  if how == 'B' then cancel_step(st) return 2 end
  local done, complete, error = how == 'D', false, ''
  if not over then complete, error = unpack(what, 4, 5) end -- of a plan, see include/plan.lua of steps
  -- A retry of the flow runs the step again that ended it, also where no branch matched its result.
  local ends = error ~= '' or over and not done
  record(st, done and 'D' or 'F', result, ends and 'f' or over and 'o' or nil)
  emit(env.cap, done and 'step_done' or 'step_failed', st.r, 's', st.id, 'n', st.k, 'f', st.f)
  if over then return 2 end
  follow(run, what)
  if complete then
    end_flow(run, 'c')
  elseif error ~= '' then
    end_flow(run, 'f', error)
  end
  return 1
end

local results = {}
for n, report in ipairs(cmsgpack.unpack(reports)) do
  -- A defect in one must not keep the others, and what follows them, from being written.
  local sound, result = pcall(settle, unpack(report))
  if not sound then redis.log(redis.LOG_WARNING, 'step ' .. tostring(report[1]) .. ': ' .. tostring(result)) end
  results[n] = sound and result or -1
end
refill()
local to_relay = take(tonumber(want), turn)
return taken_reply(results, to_relay)
