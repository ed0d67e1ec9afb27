--[[
purpose:   Moves an instance whose time is over, because somebody looked at it before the sweep did.
guarantee: Only if its time is over and its version is still the one that the move was planned from.
args:      keep_ms engine workflow retention_ms late advance
           advance = packed, see include/advance.lua; late = the ending of what was under way, as JSON
reply:     {whether it moved, whether there is something for the relay}
errors:    none
--]]
-- @include advance
local inst = load_instance(workflow)
local moved = inst and apply_timeout(inst, cmsgpack.unpack(advance), keep_ms, retention_ms, late) or false
return cmsgpack.pack({moved, hand_over()})
