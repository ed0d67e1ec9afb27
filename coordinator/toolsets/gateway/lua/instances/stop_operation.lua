--[[
purpose:   Stops the operation in progress because its caller has cancelled it.
guarantee: Only that operation, and only at the version that its ending was planned from. Hops that it has committed
           stay. A worker that executes its step is told to stop; what it reports is dropped.
args:      keep_ms run.engine workflow operation retention_ms advance
           advance = packed, see advances.lua; without a next step
reply:     {over, stopped or moved, whether the relay has work}
errors:    none
--]]
local advances = require 'advances'
local handoff = require 'handoff'
local instances = require 'instances'

return function(run, keep_ms, workflow, operation, retention_ms, advance)
  local inst, adv = instances.load(run, workflow), cmsgpack.unpack(advance)
  local what = 'stopped'
  if not inst or inst.operation ~= operation then
    what = 'over'
  elseif inst.version ~= adv.base then
    what = 'moved'
  else
    if inst.step then instances.stop_step(run, inst.step) end
    advances.apply(run, inst, adv, keep_ms, retention_ms)
  end
  return cmsgpack.pack({what, handoff.hand_over(run)})
end
