--[[
purpose:   Times out an instance that was read before the sweep found it.
guarantee: Only after its deadline, and only at the version that the move was planned from.
args:      keep_ms run.engine workflow retention_ms late advance
           advance = packed, see advances.lua; late = the ending of the operation in progress, as JSON
reply:     {whether it moved, whether the relay has work}
errors:    none
--]]
local advances = require 'advances'
local handoff = require 'handoff'
local instances = require 'instances'

return function(run, keep_ms, workflow, retention_ms, late, advance)
  local inst, moved = instances.load(run, workflow), false
  if inst then moved = advances.apply_timeout(run, inst, cmsgpack.unpack(advance), keep_ms, retention_ms, late) end
  return cmsgpack.pack({moved, handoff.hand_over(run)})
end
