--[[
purpose:   Claims and releases of one agent in one step: claims in order, then releases in order.
guarantee: One winner per item among any number of callers. The agent's earlier claim is let go only
           after a new one was acquired. One claim per agent: of several claimable entries the last is
           acquired and the others are `superseded`; nothing is reported as held that is not.
args:      request fingerprint keep_ms events_max agent claims releases
           claims = packed {id, ttl_ms, fence}, releases = packed {id, fence}; fence 0 = none shown
reply:     {now, claims {outcome, id, expires or remaining ms, first claimed at, fence}, releases {outcome, id}}
errors:    REQUEST_ID_REUSED
--]]
-- @include clock
-- @include idempotency
-- @include claims
-- @include serve

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return stored end

local now = server_time()
sweep(now, events_max, SWEEP_BATCH)

local function judge(id, fence)
  local it = load(id)
  if not it then return absent(id) end
  if it.role == TERMINAL then return 'terminal_item' end
  if live(it, now) and it.cb ~= agent then return 'already_claimed', it.cx - now end
  if fence > 0 and (fence ~= tonumber(it.f or 0) or it.cb ~= agent) then return 'stale_fence' end
  return 'success', it
end

local results, winner = {}, nil
for n, claim in ipairs(cmsgpack.unpack(claims)) do
  local outcome, detail = judge(claim[1], claim[3])
  if outcome == 'success' then
    if winner then results[winner.n] = {'superseded', winner.it.id, 0, 0, 0} end
    winner = {n = n, it = detail, ttl = claim[2]}
  end
  results[n] = {outcome, claim[1], outcome == 'already_claimed' and detail or 0, 0, 0}
end
if winner then
  local it = winner.it
  acquire(it, agent, winner.ttl, now, events_max)
  results[winner.n] = {'success', it.id, now + winner.ttl, tonumber(it.co), tonumber(it.f)}
end

local released = {}
for n, entry in ipairs(cmsgpack.unpack(releases)) do
  local it = load(entry[1])
  if not it then
    released[n] = {absent(entry[1]), entry[1]}
  elseif it.cb ~= agent then
    released[n] = {'not_claimed_by_you', it.id}
  elseif entry[2] > 0 and entry[2] ~= tonumber(it.f) then
    released[n] = {'stale_fence', it.id}
  else
    release(it, events_max)
    released[n] = {'success', it.id}
  end
end

serve(now, events_max)
return remember(request, fingerprint, 'D', cmsgpack.pack({now, results, released}), keep_ms)
