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
local FRESH_MS = 1000 -- what was leased or renewed so lately may be on its way to the worker
local known, given = {}, 0
for _, id in ipairs(held) do known[id] = true end
local before = whole(now + env.lease - FRESH_MS)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', K_STEP_LEASES, '-inf', before, 'LIMIT', 0, MOST)) do
  local st = not known[id] and load_step(id)
  if st and st.s == 'r' and st.w == env.worker then
    give_back(st, 0)
    given = given + 1
  end
end
hand_over()
return given
