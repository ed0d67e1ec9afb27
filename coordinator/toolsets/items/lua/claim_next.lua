--[[
purpose:   Finds the best item for a selector and claims it; with `wait_ms`, parks the call when there is
           none. Then the releases.
guarantee: Finding and claiming are one step, so an item that is found is not lost to another caller. Parked
           calls are served in order of arrival (include/waiters.lua). A repeated call that is parked
           already keeps its place, and its answer ends every call with the same request.
args:      request fingerprint keep_ms events_max agent ttl_ms selector queue releases wait_ms process after
           selector = packed (include/filters.lua), queue = its hash; releases = packed {id, fence}, '' for none;
           wait_ms = 0 not to wait; after = cursor of the run before, or ''
reply:     {now, {{outcome, id, expires, first claimed at, fence}}, releases {outcome, id}} as claim_item;
           outcome success, no_match, more (id = cursor for the next run, '' to begin again), parked
errors:    REQUEST_ID_REUSED NOT_FOUND
--]]
-- @include clock
-- @include idempotency
-- @include select
-- @include serve

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end

local SCAN = 200
local now, sel, wait = server_time(), cmsgpack.unpack(selector), tonumber(wait_ms)
if sel.parent and not load(sel.parent) then return redis.error_reply('FLEET NOT_FOUND') end
local waiter = {}
if redis.call('EXISTS', K_WAITER .. request) == 1 then
  waiter = redis.call('HMGET', K_WAITER .. request, 'p', 'q', 'r', 'f', 'w')
  if waiter[4] ~= fingerprint then return redis.error_reply('FLEET REQUEST_ID_REUSED') end
end
local parked, found = waiter[1], nil

local function look()
  local class = (sel.role or QUEUE) * 3 + READY
  return select_items(sel, class, agent, now, resume(after), SCAN, 1, function(it)
    found = it
    return true
  end)
end

-- Puts expired claims back; some of the items may go to callers that waited before, this one included.
local function freed(budget)
  local all = sweep(now, events_max, budget)
  serve(now, events_max)
  return all, parked and recall(request, fingerprint)
end

local swept, handed = freed(SWEEP_BATCH)
if handed then return handed end
local stopped = look()
if not found and not stopped and not swept then
  swept, handed = freed(SCAN)
  if handed then return handed end
  stopped = look()
end

local function more(from)
  return cmsgpack.pack({now, {{'more', from, 0, 0, 0}}, {}})
end

if not found and (stopped or not swept) then return more(cursor(stopped)) end

if found then acquire(found, agent, tonumber(ttl_ms), now, events_max) end
local released = parked and cmsgpack.unpack(waiter[3]) or release_all(releases, agent, events_max)
if found or wait == 0 then
  local result = {'no_match', '', 0, 0, 0}
  if found then result = {'success', found.id, tonumber(found.cx), tonumber(found.co), tonumber(found.f)} end
  local reply = remember(request, fingerprint, 'D', cmsgpack.pack({now, {result}, released}), keep_ms)
  if parked then
    remove_waiter(request, waiter[2], waiter[5])
    tell(parked, request, reply)
    if found then poke(waiter[2], now) end -- nobody had offered it: there may be another one
  end
  serve(now, events_max)
  return reply
end

local new = waiter[2] ~= queue
if parked and new then remove_waiter(request, waiter[2], waiter[5]) end
local places = park(request, queue, selector, now, wait, new)
redis.call(
  'HSET', K_WAITER .. request, 'p', process, 'a', agent, 't', ttl_ms, 'u', whole(now + wait), 'f', fingerprint,
  'k', keep_ms, 'r', cmsgpack.pack(released), 'q', queue, 'w', places
)
redis.call('PEXPIRE', K_WAITER .. request, wait + GRACE)
serve(now, events_max) -- what was released above may suit somebody, this caller included
handed = recall(request, fingerprint)
if handed then return handed end
-- What became ready behind the cursor, while nobody knew of this caller, is found by one more search.
if new and after ~= '' then return more('') end
return cmsgpack.pack({now, {{'parked', '', 0, 0, 0}}, released})
