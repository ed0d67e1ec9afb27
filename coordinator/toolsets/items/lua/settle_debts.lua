--[[
purpose:   Pays what scripts before have left to be done, a bounded part per run.
guarantee: What is paid is taken off what is owed in the same step, so any process can go on.
args:      none
reply:     whether nothing is owed any more, as far as this run has seen
errors:    none
--]]
-- @include clock
-- @include settle
return cmsgpack.pack(settle_debts(server_time()))
