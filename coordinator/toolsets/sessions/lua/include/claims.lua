-- @include session
-- @include lease
-- Sessions bound to a work item. Whoever binds one, or takes it over, shows a live claim on the item; from then
-- on the session goes forward only while that very claim (the same fence) is live. Agents that have shown a
-- claim before lose the session to the one that showed the last: their older tokens are refused, by the order
-- that `q` gives to tokens, and so are tokens that they handed on to other agents.

local function has_held(s, agent)
  for _, held in ipairs(s.hs and cmsgpack.unpack(s.hs) or {}) do
    if held == agent then return true end
  end
  return false
end

-- Whether the token shown is one from before somebody else took the session over.
local function superseded(s)
  return s.hq and tonumber(seq) < tonumber(s.hq) and has_held(s, aid)
end

-- So many agents are remembered; of more, the oldest are forgotten.
local HOLDERS_MAX = 500

local function add_holder(s, agent)
  if has_held(s, agent) then return end
  local agents = s.hs and cmsgpack.unpack(s.hs) or {}
  if #agents >= HOLDERS_MAX then table.remove(agents, 1) end
  agents[#agents + 1] = agent
  set(s, 'hs', cmsgpack.pack(agents))
end

-- nil if the session may go forward, else who holds the item now: 'nobody', 'same' (whose claim was shown), 'other';
-- 'gone' if there is no such item any more.
-- Nobody is told which other agent: that is for get_context of the item alone (seed 004, tiered disclosure).
local function claim_gone(s)
  if not s.i then return nil end
  local lease = lease_of(s.i, now)
  if not lease then return 'gone' end
  if not lease.live then return 'nobody' end
  if lease.fence == tonumber(s.f) then return nil end
  return lease.holder == s.h and 'same' or 'other'
end

-- Why a claim cannot be shown, or nil and the lease; `fence` 0: none shown.
local function unfit(item, actor, fence)
  local lease = lease_of(item, now)
  if not lease then return 'no_item' end
  if not lease.live then return 'unclaimed' end
  if lease.holder ~= actor then return 'held', lease end
  if tonumber(fence) > 0 and tonumber(fence) ~= lease.fence then return 'stale_fence' end
  return nil, lease
end

-- Makes a bound session the one that is resumed for its item.
local function point(s)
  redis.call('HSET', K_SESSION_ITEM .. s.i, s.w, s.id, '', s.id)
  redis.call('PEXPIRE', K_SESSION_ITEM .. s.i, ttl_ms)
end

-- Binds the session to the item under this claim; `q` must have been advanced for the token that will say so.
local function bind(s, item, lease, agent)
  local over = s.f and tonumber(s.f) ~= lease.fence
  add_holder(s, agent)
  set(s, 'i', item, 'f', whole(lease.fence), 'h', lease.holder)
  if over then set(s, 'hq', s.q) end
  point(s)
  emit(events_max, over and 'session_takeover' or 'session_bind', s.id, 'item', item, 'f', whole(lease.fence), 'a',
    lease.holder, 'by', agent)
end

-- The session if it is open and the item's, or nil.
local function open_for(item, id)
  local s = id and find(id)
  return s and not s.z and s.i == item and s or nil
end

-- The open session of the item for a workflow, or nil; for '' the one bound last, and where that is not open any more,
-- of the others the one that was used last, as nearly as that is kept.
local function bound_session(item, workflow)
  local found = open_for(item, redis.call('HGET', K_SESSION_ITEM .. item, workflow))
  if found or workflow ~= '' then return found end
  for _, id in ipairs(redis.call('HVALS', K_SESSION_ITEM .. item)) do
    local other = open_for(item, id)
    if other and not (found and tonumber(found.x) >= tonumber(other.x)) then found = other end
  end
  return found
end
