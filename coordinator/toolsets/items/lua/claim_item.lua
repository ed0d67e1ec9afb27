--[[
purpose:   Claims and releases of one agent in one step: claims in order, then releases in order.
guarantee: One winner per item among any number of callers. The agent's earlier claim is let go only
           after a new one was acquired. One claim per agent: of several claimable entries the last is
           acquired and the others are `superseded`; nothing is reported as held that is not.
args:      request fingerprint keep_ms events_max agent claims releases
           claims = packed {id, ttl_ms, fence}, releases = packed {id, fence}; '' for none; fence 0 = none shown
reply:     {now, claims {outcome, id, expires or remaining ms, first claimed at, fence}, releases {outcome, id}}
errors:    REQUEST_ID_REUSED
--]]
-- @include clock
-- @include idempotency
-- @include claims
-- @include serve

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

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

local results, winner, place, ttl = {}, nil, nil, nil
for n, claim in ipairs(claims ~= '' and cmsgpack.unpack(claims) or {}) do
  local id = claim[1]
  local outcome, detail = judge(id, claim[3])
  results[n] = {outcome, id, 0, 0, 0}
  if outcome == 'success' then
    if winner then results[place][1] = 'superseded' end
    winner, place, ttl = detail, n, claim[2]
  elseif detail then
    results[n][3] = detail
  end
end
if winner then
  acquire(winner, agent, ttl, now, events_max)
  results[place] = {'success', winner.id, now + ttl, tonumber(winner.co), tonumber(winner.f)}
end

local released = release_all(releases, agent, events_max)
serve(now, events_max)
return remember(request, fingerprint, 'D', cmsgpack.pack({now, results, released}), keep_ms)
