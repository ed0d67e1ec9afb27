--[[
purpose:   Puts back expired claims, for a caller that counts claims.
guarantee: Bounded: at most 50 claims a call.
args:      run.events_max
reply:     whether none are left
errors:    UNSETTLED
writes:    item ranked beneath owed leases agents holds lapsed abandoned notes note request events waiting wanted queue
           waiter messages
full:      it removes expired claims
--]]
local claims = require 'claims'
local debts = require 'debts'
local serve = require 'serve'
local settle = require 'settle'

local SWEEP_MAX = 50

return function(run)
  if not settle.debts(run) then return redis.error_reply('FLEET UNSETTLED') end
  local none_left = claims.sweep(run, SWEEP_MAX)
  serve.parked_calls(run)
  return debts.attach(run, cmsgpack.pack(none_left))
end
