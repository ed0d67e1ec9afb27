--[[
purpose:   A worker gives back steps that it cannot carry out, and takes the next ones.
guarantee: Only what is this worker's, by its attempt, is given back. No crash and no failure is counted.
args:      engine want turn reports
           want, turn = see include/take.lua of steps
           reports = packed {step, attempt, 'B', '', delay ms}
reply:     what include/take.lua says; results: 0 refused, 1 given back
errors:    none
--]]
-- @include attempts
-- @include take
local results = {}
for n, report in ipairs(cmsgpack.unpack(reports)) do
  local st = running(report[1], report[2])
  if st then give_back(st, report[5]) end
  results[n] = st and 1 or 0
end
local to_relay = take(tonumber(want), turn)
return taken_reply(results, to_relay)
