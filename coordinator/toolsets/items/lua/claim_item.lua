--[[
purpose:   Claims and releases items for one agent in one step: first the claims in order, then the releases.
guarantee: One winner per item among any number of callers. The agent's earlier claim is released only after a new
           one was acquired. One claim per agent: of several claimable entries the last is acquired and the others
           are `superseded`, so an item that is reported as held is held.
args:      request fingerprint keep_ms events_max agent claims releases
           claims = packed {id, ttl_ms, fence}, releases = packed {id, fence}; '' for none; fence 0 = none given
reply:     {now, claims {outcome, id, expires or remaining ms, first claimed at, fence}, releases {outcome, id}, '',
           and if the item that was claimed cannot start: {role, number of unsatisfied blockers, some of them as {id,
           role, needed role}}}; of new claims also role and whether it was abandoned
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include releases
-- @include graph
-- @include settle

local now = server_time()
if redis.call('EXISTS', K_OWED, K_REQUEST .. request) > 0 then
  local stored, _, refused = recall(request, fingerprint)
  if refused then return refused end
  if stored then return {stored} end
  if not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end
end

local results, winner, place, ttl = {}, nil, nil, nil
for n, claim in ipairs(claims ~= '' and cmsgpack.unpack(claims) or {}) do
  local id, fence = claim[1], claim[3]
  local item, outcome, wait = load_item_claim(id), 'success', 0
  if not item then
    outcome = absence_reason(id)
  elseif item.role == TERMINAL then
    outcome = 'terminal_item'
  elseif is_live(item, now) and item.holder ~= agent then
    outcome, wait = 'already_claimed', item.expires - now
    count_loser(item)
  elseif fence > 0 and (fence ~= item.fence or item.holder ~= agent) then
    outcome = 'stale_fence'
  else
    if winner then results[place][1] = 'superseded' end
    winner, place, ttl = item, n, claim[2]
  end
  results[n] = {outcome, id, wait, 0, 0}
end
local renews = winner and winner.holder == agent and is_live(winner, now) and is_held(winner)
if not renews then sweep_claims(now, events_max, SWEEP_BATCH) end -- a heartbeat concerns nobody else's claim
if winner then
  if renews then
    renew_claim(winner, ttl, now, events_max)
    results[place] = {'success', winner.id, now + ttl, winner.first_claimed_at, winner.fence}
  else
    winner = load_item_partly(winner.id)
    results[place] = acquire_claim(winner, agent, ttl, now, events_max)
  end
end

local BLOCKERS_NAMED, waits = 20, nil
if winner and (winner.nb or winner.role == BLOCKED) then
  local found = winner.nb and unsatisfied_blockers(winner, BLOCKERS_NAMED) or {}
  waits = {winner.role, tonumber(winner.nb or 0), found}
end

local released = releases ~= '' and release_claims(releases, agent, events_max, now) or {}
serve_waiters(now, events_max)
return with_debts(remember(request, fingerprint, 'D', cmsgpack.pack({now, results, released, '', waits}), keep_ms))
