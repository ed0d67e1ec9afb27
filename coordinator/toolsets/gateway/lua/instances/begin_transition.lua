--[[
purpose:   Begins a transition of an instance.
guarantee: Only if the version is the expected one and no other operation is in progress. The instance holds the
           token of the operation until that is over.
args:      request run.engine waiter workflow retention_ms transition trace advance
           advance = packed, see advances.lua
reply:     BegunTransition (store/instances.py)
errors:    REQUEST_ID_REUSED
--]]
local advances = require 'advances'
local change = require 'change'
local handoff = require 'handoff'
local instances = require 'instances'
local waiters = require 'waiters'

-- Why a transition planned from version `base` cannot begin; nil if it can.
local function hindrance(inst, base)
  if not inst then return 'gone' end
  if inst.version ~= base then return 'stale' end
  if inst.status ~= 'r' then return 'ended' end
  return inst.operation and 'busy' or nil
end

return function(run, request, waiter, workflow, retention_ms, transition, trace, advance)
  return change(run, request, function()
    local inst, adv = instances.load(run, workflow), cmsgpack.unpack(advance)
    local why = hindrance(inst, adv.base)
    if why then return {why, '', false}, false end
    instances.set_operation(run, inst, adv.op, transition, trace)
    if adv.next then waiters.add(run, workflow, waiter) end
    advances.apply(run, inst, adv, request.keep_ms, retention_ms)
    return {'begun', adv.op, handoff.hand_over(run)}
  end)
end
