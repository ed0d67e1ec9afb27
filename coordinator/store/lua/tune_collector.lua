--[[
purpose:   Tunes Lua's garbage collector in the server, so that it works in small portions.
guarantee: Holds for all functions of the server until it ends, and changes nothing else.
args:      pause effort
           pause = percent of the memory that was in use after a pass of Lua's collector at which the next one begins;
           effort = percent of what functions use up that a pass looks at meanwhile
reply:     1
errors:    none
writes:    none
--]]
return function(run, pause, effort)
  collectgarbage('setpause', tonumber(pause))
  collectgarbage('setstepmul', tonumber(effort))
  return 1
end
