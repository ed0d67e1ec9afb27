--[[
purpose:   Has the server take away in small portions what scripts leave behind.
guarantee: Holds for all functions of the server until it ends, and changes nothing else.
args:      pause
           pause = percent of the memory that was in use after a pass of Lua's collector at which the next one begins
reply:     the pause before
errors:    none
--]]
return collectgarbage('setpause', tonumber(pause))
