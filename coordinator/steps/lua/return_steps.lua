--[[
purpose:   A worker gives back steps that it cannot carry out, and takes the next ones.
guarantee: Only steps that this worker holds, by their attempt, are given back. No crash and no failure is counted.
args:      run.engine want turn reports
           want, turn = see taking.lua of steps
           reports = packed {step, attempt, 'B', '', delay ms}
reply:     Taken (store.py), packed, then its specs; results: 0 refused, 1 given back
errors:    none
--]]
local attempts = require 'attempts'
local taking = require 'taking'

return function(run, want, turn, reports)
  local results = {}
  for n, report in ipairs(cmsgpack.unpack(reports)) do
    local st = attempts.running(run, report[1], report[2])
    if st then attempts.give_back(run, st, report[5]) end
    results[n] = st and 1 or 0
  end
  local to_relay = taking.take(run, tonumber(want), turn)
  return taking.reply(run, results, to_relay)
end
