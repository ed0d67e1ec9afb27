--[[
purpose:   Notes that somebody was asked to release a gate, and has not.
guarantee: Changes nothing else: the gate can still be released, by anybody who may.
args:      step actor
reply:     nothing
errors:    none
writes:    step
--]]
local steps = require 'steps'

return function(run, step, actor)
  local st = steps.load(run, step)
  if st and st.s == 'g' then
    st.m = st.m or {}
    st.m[#st.m + 1] = actor
    steps.save(run, st)
  end
  return true
end
