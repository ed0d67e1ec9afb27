--[[
purpose:   Finds the best item for a selector and claims it; with `until` in the future, parks the call when
           there is none. Then the releases.
guarantee: Finding and claiming are one step, so an item that is found is not lost to another caller. Parked
           calls are served in order of arrival (include/waiters.lua). A repeated call that is parked
           already keeps its place.
args:      request fingerprint keep_ms events_max agent ttl_ms selector queue releases wait_ms process after
           selector = packed (include/filters.lua), queue = its hash; releases = packed {id, fence};
           wait_ms = 0 not to wait; after = cursor of the run before, or ''
reply:     {now, {{outcome, id, expires, first claimed at, fence}}, releases {outcome, id}} as claim_item;
           outcome success, no_match, more (id = cursor for the next run), parked (expires = when
           the earliest live claim expires, or 0)
errors:    REQUEST_ID_REUSED
--]]
-- @include clock
-- @include idempotency
-- @include select
-- @include waiters

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return stored end

local SCAN = 200
local now, sel = server_time(), cmsgpack.unpack(selector)
sweep(now, events_max, SWEEP_BATCH)
serve(now, events_max)

local class, found = ready_class(sel.role), nil
local function look()
  return select_items(sel, class, agent, now, resume(after), SCAN, function(it)
    found = it
    return true
  end)
end

local stopped = look()
if not found and not stopped and not sweep(now, events_max, SCAN) then stopped = look() end

local function let_go()
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
  return released
end

if not found and stopped then return cmsgpack.pack({now, {{'more', cursor(stopped), 0, 0, 0}}, {}}) end

local wait = tonumber(wait_ms)
if found then
  acquire(found, agent, tonumber(ttl_ms), now, events_max)
  local result = {'success', found.id, tonumber(found.cx), tonumber(found.co), tonumber(found.f)}
  local reply = {now, {result}, let_go()}
  serve(now, events_max)
  return remember(request, fingerprint, 'D', cmsgpack.pack(reply), keep_ms)
end

local parked = redis.call('EXISTS', K_WAITER .. request) == 1
local released = parked and cmsgpack.unpack(redis.call('HGET', K_WAITER .. request, 'r')) or let_go()
if wait <= 0 then
  serve(now, events_max)
  if parked then remove_waiter(request, queue) end
  return remember(request, fingerprint, 'D', cmsgpack.pack({now, {{'no_match', '', 0, 0, 0}}, released}), keep_ms)
end

if not parked then
  redis.call('ZADD', K_QUEUE .. queue, redis.call('INCR', K_ARRIVALS), request)
  redis.call('HSET', K_WAITING, queue, selector)
end
redis.call(
  'HSET', K_WAITER .. request, 'p', process, 'a', agent, 't', ttl_ms, 'u', whole(now + wait), 'f', fingerprint,
  'k', keep_ms, 'r', cmsgpack.pack(released), 'q', queue
)
redis.call('PEXPIRE', K_WAITER .. request, wait + 10000)
serve(now, events_max) -- what was released above may suit somebody, this caller included
local earliest = redis.call('ZRANGE', K_LEASES, 0, 0, 'WITHSCORES')[2]
local handed = recall(request, fingerprint)
return handed or cmsgpack.pack({now, {{'parked', '', tonumber(earliest) or 0, 0, 0}}, released})
