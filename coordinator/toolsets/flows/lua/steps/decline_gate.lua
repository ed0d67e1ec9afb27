--[[
purpose:   Notes that somebody was asked to release a gate, and has not.
guarantee: Changes nothing else: the gate can still be released, by anybody who may.
args:      step actor
reply:     nothing
errors:    none
--]]
local steps = require 'steps'

return function(run, step, actor)
  local st = steps.load(run, step)
  if not st or st.s ~= 'g' then return true end
  st.m = st.m or {}
  for _, one in ipairs(st.m) do
    if one == actor then return true end -- the same answer may come again
  end
  st.m[#st.m + 1] = actor
  steps.save(run, st)
  return true
end
