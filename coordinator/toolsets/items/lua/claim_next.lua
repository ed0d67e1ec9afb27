--[[
purpose:   Finds the best item for a selector and claims it; with `wait_ms`, parks the call if there is none. Then makes
           the releases.
guarantee: Finding and claiming are one step, so an item that was found cannot be lost to another caller. Parked
           calls are served in order of arrival (modules/waiters.lua). A repeated call that is parked already keeps
           its place, and its answer ends every call with the same request. A search of several calls that finds
           nothing is repeated once. So an item that was ready before the second search is found by one of the two,
           unless its rank rises again.
args:      request run.events_max agent ttl_ms packed_selector queue releases wait_ms process only after again
           packed_selector = packed (modules/selectors.lua), queue = its hash; releases = packed {id, fence}, '' for
           none; wait_ms = 0: do not wait; process, only = of a call that waits, as in modules/handover.lua;
           after = cursor of the last call, or ''; again = 1 in the second search, else 0
           The detail of NOT_FOUND is the field that names no item.
reply:     {now, {{outcome, id, expires, first claimed at, fence, role, whether it was abandoned}}, releases {outcome,
           id}, holders} as claim_item; expires of no_match: in how many ms to ask again; holders only where a call that
           waits got an item; outcome success, no_match, more (id = cursor for the next call, '' to begin again), again
           (begin the second search), parked
errors:    REQUEST_ID_REUSED NOT_FOUND UNSETTLED
writes:    item ranked beneath owed leases agents holds lapsed abandoned notes note request events waiting wanted queue
           arrivals waiter messages
--]]
local change = require 'change'
local claims = require 'claims'
local handover = require 'handover'
local queues = require 'queues'
local requests = require 'requests'
local selection = require 'selection'
local serve = require 'serve'
local waiters = require 'waiters'

local SWEEP_BATCH = claims.SWEEP_BATCH

local POLL_MS = 1000 -- how often to ask for who does not wait
local SCAN_MAX = 200 -- of candidates that are looked at in one call, and of expired claims that are put back

-- The reply of a call that is not over, with what it has released; `false` as well: it is not to be recorded.
local function without_item(run, outcome, cursor, released)
  return {run.now, {{outcome, cursor, 0, 0, 0}}, released}, false
end

-- Puts up to `budget` expired claims back; the items may go to calls that waited before. Returns whether none are left,
-- and if this call cannot search then, its reply.
local function sweep(run, request, waiter, budget)
  local none_left = claims.sweep(run, budget)
  serve.parked_calls(run)
  if waiter and requests.recall(run, request) then return none_left, {} end -- has got one: the reply is the record
  if run.has_debts then return none_left, redis.error_reply('FLEET UNSETTLED') end -- there are more for calls before it
  return none_left, nil
end

-- The best item from a cursor on, or nil; and where the search stopped before its end, else nil.
local function search(run, selector, agent, after, some_abandoned)
  local class_list = selection.claimable_classes(selector, some_abandoned or run.abandoned_noted)
  local from = selection.parse_cursor(after)
  local stopped, found = selection.select(run, selector, class_list, agent, from, SCAN_MAX, 1, nil)
  return found, stopped
end

-- The result of a claim, and those of the releases: of a call that is parked (`waiter`), these were made before.
local function claim_and_release(run, found, agent, ttl_ms, selector, releases, waiter)
  local claim = {'no_match', '', POLL_MS, 0, 0}
  if found then claim = claims.acquire(run, found, agent, tonumber(ttl_ms), selector) end
  if waiter then return claim, cmsgpack.unpack(waiter.releases) end
  return claim, releases ~= '' and claims.release_all(run, releases, agent) or {}
end

return function(run, request, agent, ttl_ms, packed_selector, queue, releases, wait_ms, process, only, after, again)
  local selector, wait = cmsgpack.unpack(packed_selector), tonumber(wait_ms)

  local function joined(stored, state)
    if state == 'H' then handover.join(run, request, stored, process, only) end
  end

  return change(run, request, function()
    local waiter = not run.nobody_waits and waiters.load(run, request.id) or nil -- what this call is parked as
    if waiter and waiter.fingerprint ~= request.fingerprint then return redis.error_reply('FLEET REQUEST_ID_REUSED') end
    local missing = selection.missing_field(run, selector)
    if missing then return redis.error_reply('FLEET NOT_FOUND ' .. missing) end

    only = '0' -- from here on a record is made in this step, so no other call can have got it
    local some_abandoned = not run.nothing_else and redis.call('EXISTS', run.keys.abandoned) == 1
    local found, stopped, none_left, over
    for _, budget in ipairs({SWEEP_BATCH, SCAN_MAX}) do
      none_left, over = sweep(run, request, waiter, budget)
      if over then return over, false end
      found, stopped = search(run, selector, agent, after, some_abandoned)
      if found or stopped or none_left then break end
    end
    if not found and (stopped or not none_left) then
      return without_item(run, 'more', selection.format_cursor(stopped), {})
    end
    -- What became ready behind the cursor, or better than what stands there, while nobody knew of this caller, is found
    -- by one more search; of a caller that waits, once it is parked.
    local to_search_again = after ~= '' and again == '0'
    if not found and wait == 0 and to_search_again then return without_item(run, 'again', '', {}) end

    local claim, released = claim_and_release(run, found, agent, ttl_ms, selector, releases, waiter)
    if found or wait == 0 then
      local others = waiter and queues.other_processes(run, waiter.processes, process) or ''
      local reply = {run.now, {claim}, released, wait > 0 and process .. others or nil}
      if waiter then waiters.answer(run, request.id, waiter, others, cmsgpack.pack(reply)) end
      if waiter and found then waiters.wake(run, waiter.queue, nil) end -- nobody had offered it: there may be more
      return reply, wait > 0 and 'H' or 'D'
    end
    local fields =
      {'a', agent, 't', ttl_ms, 'f', request.fingerprint, 'k', request.keep_ms, 'r', cmsgpack.pack(released)}
    local new = waiters.park(run, request, queue, packed_selector, wait, process, waiter, fields)
    if new and to_search_again then return without_item(run, 'again', '', {}) end
    return without_item(run, 'parked', '', released) -- unless what was released suits it: see change.lua
  end, joined)
end
