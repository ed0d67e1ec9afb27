--[[
purpose:   Gives back the steps that are leased to a worker which does not know of it: the reply that said so
           was lost.
guarantee: Steps of other workers, and those that are held, are left alone. No crash is counted.
args:      engine held...
           held = the steps that the worker knows of
reply:     how many were given back
errors:    none
--]]
-- @include attempts
local MOST = 1000
local known, given = {}, 0
for _, id in ipairs(held) do known[id] = true end
for _, id in ipairs(redis.call('ZRANGE', K_STEP_LEASES, 0, MOST - 1)) do
  local st = not known[id] and load_step(id)
  if st and st.s == 'r' and st.w == E.worker then
    give_back(st, 0)
    given = given + 1
  end
end
hand_over()
return given
