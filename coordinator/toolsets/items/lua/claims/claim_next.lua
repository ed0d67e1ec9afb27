--[[
purpose:   Finds the best item for a selector and claims it, or parks the call with `wait_ms`; then makes the releases.
guarantee: Finding and claiming are atomic, so a found item cannot be lost to another caller. Parked calls are served
           in order of arrival (waiters.lua). A retry of a parked call keeps its place, and its answer ends
           every call with the same request. A search over several calls that finds nothing is repeated once. So an
           item that was ready before the second search is found by one of the two, unless its rank rises again.
args:      request run.events_max run.terms agent who ttl_ms selected queue releases wait_ms process only after
           again include used
           who = for agents.lua; selected = packed (selectors.lua), queue = its hash; releases = packed
           {id, fence, reason, detail}, '' for none; wait_ms = 0: do not wait; process, only = for handover.lua;
           after = cursor of the last call, or ''; again = 1 in the second search, else 0; include as claim_item; used =
           packed, for `usage.add`, or ''. The detail of NOT_FOUND is the field with the unknown item.
reply:     ClaimReply (store/claims.py) of one claim
errors:    REQUEST_ID_REUSED NOT_FOUND UNSETTLED
--]]
local agents = require 'agents'
local change = require 'change'
local claim_parts = require 'claim_parts'
local claims = require 'claims'
local expiry = require 'expiry'
local finding = require 'finding'
local handover = require 'handover'
local held_counts = require 'held_counts'
local queues = require 'queues'
local releasing = require 'releasing'
local selection = require 'selection'
local usage = require 'usage'
local waiters = require 'waiters'

local SCAN_MAX = finding.SCAN_MAX

local SWEEPS = {expiry.SWEEP_BATCH, SCAN_MAX} -- expired claims put back at most, before each of two searches
local POLL_MS = 1000 -- the retry interval of callers that do not wait

-- The reply of an unfinished call, with its releases; and `false`: it is not recorded.
local function without_item(run, outcome, cursor, released)
  return {run.now, {{outcome, cursor, 0, 0, 0}}, released}, false
end

-- The results of a claim (nil: nothing was found) and of the releases; a parked call (`waiter`) has made its releases
-- before. `used` = what was used for the found item, for `usage.add`.
local function claim_and_release(run, found, refusal, agent, ttl_ms, selector, used, releases, include, waiter)
  local claim, made = refusal, nil
  if found then
    made = releases ~= '' and not waiter and releasing.give_up(run, releases, agent, found.id)
    claim = claims.acquire(run, found, agent, tonumber(ttl_ms), selector, found.rs)
    if used then usage.add(run, found.id, agent, used) end
  end
  if found and include ~= '' then claim_parts(run, claim, include) end
  if waiter then return claim, cmsgpack.unpack(waiter.releases) end
  return claim, releases ~= '' and releasing.make(run, releases, agent, made) or {}
end

return function(
  run, request, agent, who, ttl_ms, selected, queue, releases, wait_ms, process, only, after, again, include, used
)
  local selector, wait = cmsgpack.unpack(selected), tonumber(wait_ms)
  local spent = used ~= '' and cmsgpack.unpack(used)

  local function joined(stored, state)
    if state == 'H' then handover.join(run, request, stored, process, only) end
  end

  return change(run, request, {looks_for = expiry.looked_for_by_changes(run.keys.prefix), joined = joined}, function()
    local waiter = not run.absent[run.keys.waiting] and waiters.load(run, request.id) or nil -- if it is parked
    if waiter and waiter.fingerprint ~= request.fingerprint then return redis.error_reply('FLEET REQUEST_ID_REUSED') end
    local missing = selection.missing_field(run, selector)
    if missing then return redis.error_reply('FLEET NOT_FOUND ' .. missing) end
    local capabilities = agents.meet(run, agent, who).capabilities
    selector.capabilities = capabilities ~= '' and capabilities or nil
    local refusal = finding.refusal(run, selector, agent)

    only = '0' -- from here on this step makes the record, so no other call can have received it
    local some_abandoned = not run.absent[run.keys.abandoned] and redis.call('EXISTS', run.keys.abandoned) == 1
    local found, stopped, none_left, over
    for n = 1, 2 do
      none_left, over = finding.sweep(run, request, waiter, SWEEPS[n])
      if over then return over, false end
      if refusal then break end
      found, stopped = finding.search(run, selector, agent, after, some_abandoned)
      if found or stopped or none_left then break end
    end
    if not (found or refusal) and (stopped or not none_left) then
      return without_item(run, 'more', selection.format_cursor(stopped), {})
    end
    -- Items that became ready behind the cursor, or with a better rank, before this call was parked are found by one
    -- more search; for a waiting caller, once it is parked.
    local to_search_again = after ~= '' and again == '0'
    if not (found or refusal) and wait == 0 and to_search_again then return without_item(run, 'again', '', {}) end

    local claim, released =
      claim_and_release(run, found, refusal, agent, ttl_ms, selector, spent, releases, include, waiter)
    if found or refusal or wait == 0 then
      claim = claim or held_counts.no_match(run, selector, agent, POLL_MS)
      local others, handed = waiter and queues.other_processes(run, waiter.processes, process) or '', found and wait > 0
      local reply = {run.now, {claim}, released, handed and process .. others or nil}
      if waiter then waiters.answer(run, request.id, waiter, others, cmsgpack.pack(reply)) end
      -- It had not been offered: there may be more.
      if waiter and found then waiters.wake(run, waiter.queue, found.to and {}) end
      return reply, handed and 'H' or 'D'
    end
    selected, queue = finding.parked_selector(selector, selected, queue)
    local fields =
      {'t', ttl_ms, 'f', request.fingerprint, 'k', request.keep_ms, 'r', cmsgpack.pack(released), 'i', include}
    if used ~= '' then fields[#fields + 1], fields[#fields + 2] = 'us', used end
    local new = waiters.park(run, request, agent, queue, selected, wait, process, waiter, fields)
    if new and to_search_again then return without_item(run, 'again', '', {}) end
    local reply = without_item(run, 'parked', '', released)
    reply[2][1][3] = finding.search_again_ms(run, queue, request.id, agent)
    return reply, false -- unless a released item matches: see change.lua
  end)
end
