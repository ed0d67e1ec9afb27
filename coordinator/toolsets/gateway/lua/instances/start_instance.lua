--[[
purpose:   Creates an instance and begins its first operation.
guarantee: The instance, its definitions and the first step are created together, once per request id. An existing
           instance stays unchanged.
args:      request run.engine waiter instance bundle_text input advance
           instance = packed by name {id, definition, creator, bundle, retention_ms, transition, trace} and, optionally,
           {timeout_ms, parent, nesting, session_ms, owner, pool}; bundle_text = '' if it is probably
           stored; advance = packed, see advances.lua
reply:     _Started (store/instances.py)
errors:    REQUEST_ID_REUSED
--]]
local advances = require 'advances'
local audit = require 'audit'
local bundles = require 'bundles'
local change = require 'change'
local events = require 'events'
local handoff = require 'handoff'
local instance_data = require 'instance_data'
local instances = require 'instances'
local owners = require 'owners'
local retention = require 'retention'
local waiters = require 'waiters'

-- Writes a new instance, and the step that waits for its deadline.
local function create(run, new, input, state)
  local id = new.id
  local inst = {id = id, status = 'r', version = 1, state = state, definition = new.definition, pool = new.pool,
    bundle = new.bundle, parent = new.parent}
  local fields = {'o', 'gateway', 'n', new.definition, 'u', new.creator, 's', 'r', 'h', new.bundle, 'v', 1, 'z', state,
    't', run.at, 'l', audit.BEGINNING}
  local function also(field, value)
    if not value then return end
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  also('q', new.pool)
  also('m', new.parent)
  also('k', new.nesting)
  also('y', new.session_ms)
  also('so', new.owner)
  if new.timeout_ms then
    local timer = {id = instances.timer_of(id), r = id, k = 't', f = '1', q = handoff.list_of(new.pool)}
    handoff.make_ready_after(run, timer, new.timeout_ms)
    inst.deadline = tonumber(timer.e)
    also('d', timer.e)
  end
  owners.create(run, id, fields, new.bundle)
  instance_data.begin(run, id, input)
  if new.session_ms then retention.keep(run, id, new.session_ms) end
  return inst
end

return function(run, request, waiter, instance, bundle_text, input, advance)
  return change(run, request, function()
    local new, adv = cmsgpack.unpack(instance), cmsgpack.unpack(advance)
    if redis.call('EXISTS', run.keys.run .. new.id) == 1 then return {new.id, '', false}, false end
    if not bundles.keep(run, new.bundle, bundle_text) then return {'', '', false}, false end
    local inst = create(run, new, input, adv.state)
    events.emit(run, 'gateway_started', inst.id, 'n', inst.definition)
    instances.set_operation(run, inst, adv.op, new.transition, new.trace)
    if adv.next then waiters.add(run, inst.id, waiter) end
    advances.apply(run, inst, adv, request.keep_ms, new.retention_ms)
    if adv.next then instances.list(run, inst) end
    return {inst.id, adv.op, handoff.hand_over(run)}
  end)
end
