--[[
purpose:   Gives back the steps that are leased to a worker which does not know of it, because the reply was lost.
guarantee: Steps of other workers, and those that are held, are left alone. No crash is counted.
args:      run.engine held...
           held = the steps that the worker knows of
reply:     how many were given back
errors:    none
--]]
local attempts = require 'attempts'
local clock = require 'clock'
local handoff = require 'handoff'
local steps = require 'steps'

local STEPS_MAX = 1000 -- that are looked at
local FRESH_MS = 1000 -- a step leased or renewed this recently may still be on its way to the worker

return function(run, held)
  local known, given = {}, 0
  for _, id in ipairs(held) do known[id] = true end
  local before = clock.whole(run.now + run.env.lease - FRESH_MS)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', run.keys.step_leases, '-inf', before, 'LIMIT', 0, STEPS_MAX)) do
    local st = not known[id] and steps.load(run, id)
    if st and st.s == 'r' and st.w == run.env.worker then
      attempts.give_back(run, st, 0)
      given = given + 1
    end
  end
  handoff.hand_over(run)
  return given
end
