--[[
purpose:   Appends entries to the audit that go with no change: refusals, discoveries, reloads.
guarantee: In the order given.
args:      cap workflow operation actor entries
           entries = packed {type, payload as JSON}...
reply:     nothing
errors:    none
--]]
-- @include audit
for _, one in ipairs(cmsgpack.unpack(entries)) do audit(cap, workflow, operation, actor, one[1], one[2]) end
return true
