--[[
purpose:   Stores a flow and starts it.
guarantee: Ids of flows and steps only rise and are unique: the flow takes the current time, or the last number
           + 1, and reserves one number for each step that it can have.
args:      request run.engine header spec plan
           header = packed {name, creator, creator hashed, most steps, priority, pool, delay ms, parent, trace, roles
           that may approve its gates as JSON}
           engine, plan = see handoff.lua and plans.lua of steps
reply:     {id, whether the relay has work}
errors:    REQUEST_ID_REUSED
owns:      step_ids
--]]
local change = require 'change'
local clock = require 'clock'
local events = require 'events'
local flows = require 'flows'
local handoff = require 'handoff'
local owners = require 'owners'
local plans = require 'plans'
local steps = require 'steps'

-- Reserves the numbers of the flow and its steps; returns the flow's.
local function reserve_ids(run, most_steps)
  local id = math.max(run.now, tonumber(redis.call('GET', run.keys.step_ids) or 0) + 1)
  redis.call('SET', run.keys.step_ids, clock.whole(id + most_steps))
  return id
end

return function(run, request, header, spec, plan)
  return change(run, request, function()
    local name, creator, creator_hash, most_steps, priority, pool, delay_ms, parent, trace, roles =
      unpack(cmsgpack.unpack(header))
    local number = reserve_ids(run, most_steps)
    local flow = {id = clock.whole(number), s = 'r', u = creator, p = priority ~= 'normal' and priority or nil,
      q = plans.non_empty(pool), ro = plans.non_empty(roles)}
    local fields = {'n', name, 'u', creator, 'h', creator_hash, 's', 'r', 'k', most_steps}
    local function also(field, value)
      if not value then return end
      fields[#fields + 1] = field
      fields[#fields + 1] = value
    end
    also('p', flow.p)
    also('q', flow.q)
    also('ro', flow.ro)
    also('m', plans.non_empty(parent))
    also('tr', plans.non_empty(trace))
    also('t', number ~= run.now and run.at)
    owners.create(run, flow.id, fields, spec)
    run.owners[run.keys.run .. flow.id] = flow
    flows.list(run, flow, creator_hash)
    events.emit(run, 'flow_created', flow.id, steps.audience(flow))
    plans.follow(run, flow, cmsgpack.unpack(plan), delay_ms)
    return {number, handoff.hand_over(run)}
  end)
end
