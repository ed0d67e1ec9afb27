--[[
purpose:   Finds the best item for a selector and claims it; with `wait_ms`, parks the call if there is none. Then makes
           the releases.
guarantee: Finding and claiming are one step, so an item that was found cannot be lost to another caller. Parked
           calls are served in order of arrival (include/waiters.lua). A repeated call that is parked already keeps
           its place, and its answer ends every call with the same request. A search of several runs that finds
           nothing is repeated once. So an item that was ready before the second search is found by one of the two,
           unless its rank rises again.
args:      request fingerprint keep_ms events_max agent ttl_ms packed_selector queue releases wait_ms process only after
           again
           packed_selector = packed (include/filters.lua), queue = its hash; releases = packed {id, fence}, '' for none;
           wait_ms = 0: do not wait; process, only = of a call that waits, as in include/handover.lua; after = cursor of
           the last run, or ''; again = 1 in the second search, else 0
           The detail of NOT_FOUND is the field that names no item.
reply:     {now, {{outcome, id, expires, first claimed at, fence, role, whether it was abandoned}}, releases {outcome,
           id}, holders} as claim_item; expires of no_match: in how many ms to ask again; holders only where a call that
           waits got an item; outcome success, no_match, more (id = cursor for the next run, '' to begin again), again
           (begin the second search), parked
errors:    REQUEST_ID_REUSED NOT_FOUND UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include releases
-- @include select
-- @include settle

local POLL_MS = 1000 -- how often to ask for who does not wait
local SCAN_MAX = 200 -- of candidates that are looked at in one run, and of expired claims that are put back
local now, selector, wait = server_time(), cmsgpack.unpack(packed_selector), tonumber(wait_ms)
local waiter = nil -- what this call is parked as
-- In one command, because nearly always there is none of these.
local signs = redis.call('EXISTS', K_OWED, K_REQUEST .. request, K_WAITING, K_WAITER .. request, K_ABANDONED)
local some_abandoned = signs > 0 and redis.call('EXISTS', K_ABANDONED) == 1
nobody_waits = signs == (some_abandoned and 1 or 0)
if not nobody_waits then
  if not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end -- which may have served this very call
  local stored, state, refused = recall(request, fingerprint)
  if refused then return refused end
  if stored then
    if state == 'H' then join_holders(request, fingerprint, stored, process, only) end
    return {stored}
  end
  waiter = load_waiter(request)
  if waiter and waiter.fingerprint ~= fingerprint then return redis.error_reply('FLEET REQUEST_ID_REUSED') end
end
for _, field in ipairs({'parent', 'ancestor'}) do
  if selector[field] and not load_item(selector[field]) then return redis.error_reply('FLEET NOT_FOUND ' .. field) end
end

-- Whether the item went to this very call, as one that waited before; returns its reply.
local function take_over()
  local stored = recall(request, fingerprint)
  if stored then join_holders(request, fingerprint, stored, process, '0') end
  return stored and {stored}
end

local found, stopped, swept, handed_over -- swept: no expired claims are left
for _, batch in ipairs({SWEEP_BATCH, SCAN_MAX}) do
  -- Puts expired claims back; some of the items may go to callers that waited before, this one included.
  swept = sweep_claims(now, events_max, batch)
  serve_waiters(now, events_max)
  handed_over = waiter and take_over()
  if handed_over then return handed_over end
  if has_debts then return redis.error_reply('FLEET UNSETTLED') end -- there are more for callers that waited before
  local classes = claimable_classes(selector, some_abandoned or abandoned_noted)
  stopped, found = select_items(selector, classes, agent, now, parse_cursor(after), SCAN_MAX, 1, nil)
  if found or stopped or swept then break end
end
local function go_on(outcome, cursor)
  return with_debts(cmsgpack.pack({now, {{outcome, cursor, 0, 0, 0}}, {}}))
end
if not found and (stopped or not swept) then return go_on('more', format_cursor(stopped)) end
-- What became ready behind the cursor, or better than what stands there, while nobody knew of this caller, is found
-- by one more search; of a caller that waits, once it is parked.
local to_search_again = after ~= '' and again == '0'
if not found and wait == 0 and to_search_again then return go_on('again', '') end

local result, released = {'no_match', '', POLL_MS, 0, 0}, {}
if found then
  result = acquire_claim(found, agent, tonumber(ttl_ms), now, events_max, selector)
end
if waiter then
  released = cmsgpack.unpack(waiter.releases)
elseif releases ~= '' then
  released = release_claims(releases, agent, events_max, now)
end
if found or wait == 0 then
  local others = waiter and other_processes(waiter.processes, process) or ''
  local reply = {now, {result}, released, wait > 0 and process .. others or nil}
  reply = remember(request, fingerprint, wait > 0 and 'H' or 'D', cmsgpack.pack(reply), keep_ms)
  if waiter then answer_call(request, waiter, others, reply, found, now) end
  serve_waiters(now, events_max)
  return with_debts(reply)
end

local fields = {'a', agent, 't', ttl_ms, 'f', fingerprint, 'k', keep_ms, 'r', cmsgpack.pack(released)}
nobody_waits = false
local new = park_call(request, queue, packed_selector, now, wait, process, waiter, fields)
serve_waiters(now, events_max) -- what was released above may suit somebody, this caller included
handed_over = take_over()
if handed_over then return handed_over end
if new and to_search_again then return go_on('again', '') end
return with_debts(cmsgpack.pack({now, {{'parked', '', 0, 0, 0}}, released}))
