--[[
purpose:   Appends entries to the audit that go with no change: refusals, discoveries, reloads.
guarantee: In the order given.
args:      cap workflow operation actor entries
           entries = packed {type, payload as JSON}...
reply:     nothing
errors:    none
--]]
-- @include audit
for _, entry in ipairs(cmsgpack.unpack(entries)) do audit(cap, workflow, operation, actor, unpack(entry)) end
return true
