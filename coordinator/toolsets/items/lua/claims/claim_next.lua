--[[
purpose:   Finds the best item for a selector, claims it and starts it if that is asked for, or parks the call with
           `wait_ms`; makes the releases (releasing.lua).
guarantee: Finding and claiming are atomic, so a found item cannot be lost to another caller. Parked calls are served
           in order of arrival (waiters.lua). A retry of a parked call keeps its place, and its answer ends
           every call with the same request. A search over several calls that finds nothing is repeated once. So an
           item that was ready before the second search is found by one of the two, unless its rank rises again.
args:      request run.events_max run.terms agent who ttl_ms selected queue releases wait_ms process only after
           again include used author
           who = for agents.lua; selected = packed (selectors.lua), queue = its hash; releases = packed
           (releasing.lua), '' for none; wait_ms = 0: do not wait; process, only = for handover.lua; after = cursor of
           the last call, or ''; again = 1 in the second search, else 0; include as claim_item; used = packed, for
           `usage.add`, or ''; author = as starting.lua. The detail of NOT_FOUND is the field with the unknown item.
reply:     ClaimReply (store/claims.py) of one claim
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN NOT_FOUND UNSETTLED
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
local starting = require 'starting'
local usage = require 'usage'
local waiters = require 'waiters'

local SCAN_MAX = finding.SCAN_MAX

local SWEEPS = {expiry.SWEEP_BATCH, SCAN_MAX} -- expired claims put back at most, before each of two searches
local POLL_MS = 1000 -- the retry interval of callers that do not wait

-- The reply of an unfinished call; it is recorded if that has releases, which are not to be made again.
local function without_item(run, outcome, cursor, made)
  return {run.now, {{outcome, cursor, 0, 0, 0}}, made}, made[1] ~= nil and 'P'
end

-- The claim of a found item. `used` = what was used for it, for `usage.add`.
local function claim(run, found, agent, ttl_ms, selector, used, include, author)
  local placed = author == '' and claims.acquire(run, found, agent, tonumber(ttl_ms), selector, found.rs)
    or starting.claim(run, found, agent, tonumber(ttl_ms), selector, found.rs, author)
  if used then usage.add(run, found.id, agent, used) end
  if include ~= '' then claim_parts(run, placed, include) end
  return placed
end

return function(
  run, request, agent, who, ttl_ms, selected, queue, releases, wait_ms, process, only, after, again, include, used,
  author
)
  local selector, wait = cmsgpack.unpack(selected), tonumber(wait_ms)
  local spent = used ~= '' and cmsgpack.unpack(used)

  local function joined(stored, state)
    if state == 'H' then handover.join(run, request, stored, process, only) end
  end

  local options = {looks_for = expiry.looked_for_by_changes(run.keys.prefix), joined = joined}
  return change(run, request, options, function(progress)
    if author ~= '' and starting.lacks_config(run, author) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end
    local waiter = not run.absent[run.keys.waiting] and waiters.load(run, request.id) or nil -- if it is parked
    if waiter and waiter.fingerprint ~= request.fingerprint then return redis.error_reply('FLEET REQUEST_ID_REUSED') end
    local missing = selection.missing_field(run, selector)
    if missing then return redis.error_reply('FLEET NOT_FOUND ' .. missing) end
    local capabilities = agents.meet(run, agent, who).capabilities
    selector.capabilities = capabilities ~= '' and capabilities or nil
    local made, refused = waiter and cmsgpack.unpack(waiter.releases) or {}, false
    local to_release = releases ~= '' and not waiter -- a parked call has made its releases before
    if to_release then made, refused = releasing.make_first(run, releases, agent, author, progress) end
    local refusal, paused = finding.refusal(run, selector, agent, wait > 0)
    if refused then refusal = {'release_refused', '', 0, 0, 0} end
    only = '0' -- from here on this step makes the record, so no other call can have received it
    local some_abandoned = not run.absent[run.keys.abandoned] and redis.call('EXISTS', run.keys.abandoned) == 1
    local found, stopped, none_left, over = nil, nil, paused, nil
    for n = 1, 2 do
      if refusal or paused then break end
      none_left, over = finding.sweep(run, request, waiter, SWEEPS[n])
      if over and not made[1] then return over, false end
      if over then return without_item(run, 'more', '', made) end
      found, stopped = finding.search(run, selector, agent, after, some_abandoned)
      if found or stopped or none_left then break end
    end
    if not (found or refusal) and (stopped or not none_left) then
      return without_item(run, 'more', selection.format_cursor(stopped), made)
    end
    -- Items that became ready behind the cursor, or with a better rank, before this call was parked are found by one
    -- more search; for a waiting caller, once it is parked.
    local to_search_again = after ~= '' and again == '0' and not paused
    if not (found or refusal) and wait == 0 and to_search_again then
      return without_item(run, 'again', '', made)
    end

    if found and to_release then releasing.give_up(run, releases, agent, author, found.id, made) end
    local placed = found and claim(run, found, agent, ttl_ms, selector, spent, include, author) or refusal
    if to_release then made = releasing.make(run, releases, agent, author, made) end
    if found or refusal or wait == 0 then
      placed = placed or held_counts.no_match(run, selector, agent, POLL_MS)
      local others, handed = waiter and queues.other_processes(run, waiter.processes, process) or '', found and wait > 0
      local reply = {run.now, {placed}, made, handed and process .. others or nil}
      if waiter then waiters.answer(run, request.id, waiter, others, cmsgpack.pack(reply)) end
      -- It had not been offered: there may be more.
      if waiter and found then waiters.wake(run, waiter.queue, found.to and {}) end
      return reply, handed and 'H' or 'D'
    end
    selected, queue = finding.parked_selector(selector, selected, queue)
    local fields = {
      't', ttl_ms, 'f', request.fingerprint, 'k', request.keep_ms, 'r', cmsgpack.pack(made), 'i', include, 'by', author,
    }
    if used ~= '' then fields[#fields + 1], fields[#fields + 2] = 'us', used end
    local new = waiters.park(run, request, agent, queue, selected, wait, process, waiter, fields)
    if new and to_search_again then return without_item(run, 'again', '', made) end
    local reply, kept = without_item(run, 'parked', '', made)
    reply[2][1][3] = finding.search_again_ms(run, queue, request.id, agent)
    return reply, kept -- not as an answer, unless a released item matches: see change.lua
  end)
end
