--[[
purpose:   Does what earlier scripts have left undone (their debts), a bounded part per run.
guarantee: What is done is removed from the debts in the same step, so any process can go on.
args:      none
reply:     whether no debts are left, as far as this run has seen
errors:    none
--]]
-- @include clock
-- @include settle
return cmsgpack.pack(settle_debts(server_time()))
