-- What follows a step (or begins a flow), as Python planned it: see Plan and NewStep in model.py.
--   plan = {create {step...}, forks {{name, arrivals}...}, arrive false|{name, step}, complete, error}
--   step = {key, ready|gate|done, pool, priority, delay ms, expires ms, context, arguments}
-- owns: none
local clock = require 'clock'
local handoff = require 'handoff'
local history = require 'history'
local owners = require 'owners'
local step_events = require 'step_events'
local steps = require 'steps'

local plans = {}

-- The text; nil if it is empty.
function plans.non_empty(text)
  return text ~= '' and text or nil
end

-- Lets a step wait for its release.
function plans.open_gate(run, st)
  st.s, st.b, st.t = 'g', run.at, 'g'
  steps.save(run, st)
  steps.list_gate(run, st.id, true)
  if st.y then steps.set_timer(run, st.id, run.keys.prefix, run.now + st.y) end
  step_events.emit(run, 'step_gate', st)
end

-- Creates a step of an owner: hands it to the workers, opens the gate, or records that it is done (`again`: see
-- history.lua).
local function create_step(run, owner, new, delay, again)
  local key, state, pool, priority, delay_ms, expires_ms, context, arguments = unpack(new)
  local number = owners.add(run, owner.id, 'i', 1)
  local st = {id = clock.whole((tonumber(owner.id) or 0) + number), r = owner.id, k = key, f = 1, e = run.at,
    q = handoff.list_of(plans.non_empty(pool) or owner.q, plans.non_empty(priority) or owner.p),
    z = plans.non_empty(context), a = plans.non_empty(arguments)}
  if state == 'done' then
    st.b = st.e
    history.append(run, st, 'D', 'null', again)
  elseif state == 'gate' then
    st.y = expires_ms > 0 and expires_ms or nil
    plans.open_gate(run, st)
  else
    handoff.make_ready_after(run, st, delay_ms + (delay or 0))
  end
end

-- Creates all that a plan says, each step `delay` ms later if that is given; whether the owner goes on afterwards is up
-- to the toolset.
function plans.follow(run, owner, plan, delay)
  local create, forks, arrival, _, failure = unpack(plan, 1, 5)
  for _, fork in ipairs(forks) do
    local counter, arrivals = unpack(fork)
    owners.set(run, owner.id, 'j' .. counter, arrivals)
  end
  -- If the flow fails with this plan, a retry would do again what is done already.
  local again = failure ~= '' and 'n' or nil
  for _, new in ipairs(create) do create_step(run, owner, new, delay, again) end
  if not arrival then return end
  local counter, joined = unpack(arrival)
  if owners.add(run, owner.id, 'j' .. counter, -1) == 0 then
    owners.unset(run, owner.id, 'j' .. counter)
    create_step(run, owner, joined)
  end
end

return plans
