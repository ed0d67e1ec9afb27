--[[
purpose:   Claims and releases of one agent in one step: claims in order, then releases in order.
guarantee: One winner per item among any number of callers. The agent's earlier claim is let go only
           after a new one was acquired. One claim per agent: of several claimable entries the last is
           acquired and the others are `superseded`; nothing is reported as held that is not.
args:      request fingerprint keep_ms events_max agent claims releases
           claims = packed {id, ttl_ms, fence}, releases = packed {id, fence}; '' for none; fence 0 = none shown
reply:     {now, claims {outcome, id, expires or remaining ms, first claimed at, fence}, releases {outcome, id}}
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include releases
-- @include settle

local now = server_time()
if redis.call('EXISTS', K_OWED, K_REQUEST .. request) > 0 then
  local stored, _, refused = recall(request, fingerprint)
  if refused then return refused end
  if stored then return {stored} end
  if not settle(now) then return redis.error_reply('FLEET UNSETTLED') end
end

local results, winner, place, ttl = {}, nil, nil, nil
for n, claim in ipairs(claims ~= '' and cmsgpack.unpack(claims) or {}) do
  local id, fence = claim[1], claim[3]
  local it, outcome, wait = claim_of(id), 'success', 0
  if not it then
    outcome = absent(id)
  elseif it.role == TERMINAL then
    outcome = 'terminal_item'
  elseif live(it, now) and it.cb ~= agent then
    outcome, wait = 'already_claimed', it.cx - now
    count_loser(it)
  elseif fence > 0 and (fence ~= it.f or it.cb ~= agent) then
    outcome = 'stale_fence'
  else
    if winner then results[place][1] = 'superseded' end
    winner, place, ttl = it, n, claim[2]
  end
  results[n] = {outcome, id, wait, 0, 0}
end
local renews = winner and winner.cb == agent and live(winner, now) and is_held(winner)
if not renews then sweep(now, events_max, SWEEP_BATCH) end -- a heartbeat concerns nobody else's claim
if winner then
  if renews then
    renew(winner, ttl, now, events_max)
  else
    winner = glance(winner.id)
    acquire(winner, agent, ttl, now, events_max)
  end
  results[place] = {'success', winner.id, now + ttl, winner.co, winner.f}
end

local released = releases ~= '' and release_all(releases, agent, events_max, now) or {}
serve(now, events_max)
return with_debts(remember(request, fingerprint, 'D', cmsgpack.pack({now, results, released}), keep_ms))
