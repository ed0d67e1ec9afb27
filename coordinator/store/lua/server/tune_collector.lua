--[[
purpose:   Tunes Lua's garbage collector in the server, so that it works in small steps.
guarantee: Holds for all functions of the server until it ends, and changes nothing else.
args:      pause effort
           pause, effort = Lua's setpause and setstepmul, in percent (store.py)
reply:     1
errors:    none
--]]
return function(run, pause, effort)
  collectgarbage('setpause', tonumber(pause))
  collectgarbage('setstepmul', tonumber(effort))
  return 1
end
