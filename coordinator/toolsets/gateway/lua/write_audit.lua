--[[
purpose:   Appends entries to the audit that go with no change: refusals, discoveries, reloads.
guarantee: In the order given.
args:      cap workflow operation actor entries
           entries = packed {type, payload as JSON}...
reply:     nothing
errors:    none
--]]
-- @include keys
for _, one in ipairs(cmsgpack.unpack(entries)) do
  redis.call('XADD', K_GATE_AUDIT, 'MAXLEN', '~', cap, '*', 'w', workflow, 'c', operation, 'a', actor, 'e', one[1], 'p',
    one[2])
end
return true
