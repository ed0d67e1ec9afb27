-- Sessions bound to a work item. An agent that binds one, or takes it over, shows a live claim on the item; from then
-- on the session advances only while that claim (the same fence) is live. Agents that showed earlier claims lose the
-- session: their older tokens are rejected, by the order that `q` gives to tokens, and so are tokens that they passed
-- on to other agents.
-- owns: none
local clock = require 'clock'
local events = require 'events'
local leases = require 'leases'
local sessions = require 'sessions'

local bindings = {}

local HOLDERS_MAX = 500 -- recorded agents; the oldest are dropped

-- Whether an agent has had the session under a claim.
function bindings.has_held(s, agent)
  for _, held in ipairs(s.hs and cmsgpack.unpack(s.hs) or {}) do
    if held == agent then return true end
  end
  return false
end

-- Whether the token shown is older than a take-over by another agent.
function bindings.superseded(run, s)
  return s.hq and tonumber(run.seq) < tonumber(s.hq) and bindings.has_held(s, run.aid)
end

-- Records that an agent has the session under a claim.
function bindings.add_holder(run, s, agent)
  if bindings.has_held(s, agent) then return end
  local agents = s.hs and cmsgpack.unpack(s.hs) or {}
  if #agents >= HOLDERS_MAX then table.remove(agents, 1) end
  agents[#agents + 1] = agent
  sessions.set(run, s, 'hs', cmsgpack.pack(agents))
end

-- nil if the session may advance, else the item's current holder: 'nobody', 'same' (as the claim shown), 'other';
-- 'gone' if the item was deleted.
-- The other agent is not named: only get_context of the item discloses its holder.
function bindings.claim_gone(run, s)
  if not s.i then return nil end
  local lease = leases.of(run, s.i)
  if not lease then return 'gone' end
  if not lease.live then return 'nobody' end
  if lease.fence == tonumber(s.f) then return nil end
  return lease.holder == s.h and 'same' or 'other'
end

-- Why a claim cannot be shown, or nil and the lease; `fence` 0: none shown.
function bindings.unfit(run, item, actor, fence)
  local lease = leases.of(run, item)
  if not lease then return 'no_item' end
  if not lease.live then return 'unclaimed' end
  if lease.holder ~= actor then return 'held', lease end
  if tonumber(fence) > 0 and tonumber(fence) ~= lease.fence then return 'stale_fence' end
  return nil, lease
end

-- Binds the session to the item under this claim; `q` must already be advanced for the new token.
function bindings.bind(run, s, item, lease, agent)
  local over = s.f and tonumber(s.f) ~= lease.fence
  bindings.add_holder(run, s, agent)
  sessions.set(run, s, 'i', item, 'f', clock.whole(lease.fence), 'h', lease.holder)
  if over then sessions.set(run, s, 'hq', s.q) end
  sessions.point(run, s)
  events.emit(run, over and 'session_takeover' or 'session_bind', s.id, 'item', item, 'f', clock.whole(lease.fence),
    'a', lease.holder, 'by', agent)
end

-- The session if it is open and the item's, or nil.
local function open_for(run, item, id)
  local s = id and sessions.find(run, id)
  return s and not s.z and s.i == item and s or nil
end

-- The open session of the item for a workflow, or nil. For '' the one bound last; if that is closed, the one used last,
-- up to the precision of renewals.
function bindings.bound_session(run, item, workflow)
  local found = open_for(run, item, redis.call('HGET', run.keys.session_item .. item, workflow))
  if found or workflow ~= '' then return found end
  for _, id in ipairs(redis.call('HVALS', run.keys.session_item .. item)) do
    local other = open_for(run, item, id)
    if other and not (found and tonumber(found.x) >= tonumber(other.x)) then found = other end
  end
  return found
end

return bindings
