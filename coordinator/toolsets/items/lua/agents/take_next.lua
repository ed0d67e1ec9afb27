--[[
purpose:   Gives a worker the item that it holds, else claims the best one for a selector; starts it. Before that, takes
           its report that ends the one before.
guarantee: If the report is refused, nothing else happens. Report, claim and start are atomic. What the report has ended
           is not what is claimed. The search is that of one call: `more` means that the caller has to continue with
           claim_next. A worker holds one item at a time.
args:      request run.events_max run.terms run.config run.labels agent who ttl_ms packed_selector author include
           waiting report
           the request has no record; who = for agents.lua; author = packed {actor, verification} of the start; the
           detail of NOT_FOUND is the field with the unknown item; include as claim_item; waiting = packed {request
           under which the worker waits, its fingerprint, process whose client may hang up or '', for how long to renew
           a claim that it has (ms; 0: as before, -1: not, it has just been placed), where ends of its work are
           recorded, fence of the only claim that it is about; 0: any, and for how long that is renewed at most}; report
           = packed as for `reporting.take`, '' for none
reply:     Taken (store/agents/take.py): the claim as that of claim_next, or {more, '', 0, 0, 0}, or with the outcome
           `held` or `ended`. An item in another role than queue is not started, unless it was abandoned
errors:    CONFIG_UNKNOWN NOT_FOUND UNSETTLED
--]]
local abandoned = require 'abandoned'
local agent_drains = require 'agent_drains'
local agents = require 'agents'
local budgets = require 'budgets'
local change_by_schema = require 'change_by_schema'
local debts = require 'debts'
local expiry = require 'expiry'
local finding = require 'finding'
local included = require 'included'
local notes = require 'notes'
local pauses = require 'pauses'
local reporting = require 'reporting'
local requests = require 'requests'
local selection = require 'selection'
local selectors = require 'selectors'
local serve = require 'serve'
local waiters = require 'waiters'
local work = require 'work'

local SCAN_MAX = 200 -- candidates checked
local MORE = {'more', '', 0, 0, 0}

-- The best item for a selector, or nil. Newly ready items go to parked calls first.
local function find(run, selector, agent)
  local none_left = expiry.sweep(run)
  if not run.absent[run.keys.waiting] then serve.parked_calls(run) end
  if debts.are_left(run) or not none_left then return nil end -- the indexes are not up to date yet
  local some_abandoned = not run.absent[run.keys.abandoned] or abandoned.was_noted(run)
  local class_list = selectors.claimable_classes(selector, some_abandoned)
  local search = {selector = selector, agent = agent, wanted = 1}
  local _, found = selection.select(run, search, class_list, nil, SCAN_MAX, nil)
  return found
end

-- The claim that a worker has, and its item; nil if it has none. A call of it that waits gets it, too.
local function kept(run, agent, worker)
  local item = work.held(run, agent)
  if not item or worker[6] > 0 and worker[6] ~= item.fence then return nil end
  if worker[4] < 0 then
    requests.forget(run, {worker[5] .. item.id})
  else
    work.renew(run, item, worker[4], worker[7])
  end
  local waiter = not run.absent[run.keys.waiting] and waiters.load(run, worker[1])
  if waiter then -- else it would get another item, for which it would let go of this one
    local claim = {'success', item.id, item.expires, item.first_claimed_at, item.fence}
    waiters.answer(run, worker[1], waiter, waiter.processes, cmsgpack.pack({run.now, {claim}, {}, ''}))
  end
  return {'held', item.id, item.expires, item.first_claimed_at, item.fence}, item
end

-- Claims the best item and starts it: the claim, the item and the entry of the start. A worker with a call that is
-- parked may get one by that. Else the records of how it has waited and of what it has ended go; if its client may hang
-- up, the claim is recorded instead, so that it can be taken back (leave_wait.lua).
local function claim_best(run, request, agent, ttl_ms, selector, worker, author)
  local record, mark, process, _, ends = unpack(worker)
  if not run.absent[run.keys.waiting] and redis.call('EXISTS', run.keys.waiter .. record) == 1 then return MORE end
  local found = find(run, selector, agent)
  requests.forget(run, {record, ends, found and ends .. found.id})
  if not found then return MORE end
  local claim, start = work.claim(run, found, agent, tonumber(ttl_ms), selector, found.rs, author)
  if process ~= '' then
    local kept_as = {id = record, fingerprint = mark, keep_ms = request.keep_ms}
    requests.remember(run, kept_as, 'H', cmsgpack.pack({run.now, {claim}, {}, process}))
  end
  return claim, found, start
end

return function(run, request, agent, who, ttl_ms, packed_selector, author, include, waiting, report)
  local selector, worker, by = cmsgpack.unpack(packed_selector), cmsgpack.unpack(waiting), cmsgpack.unpack(author)
  return change_by_schema(run, request, {looks_for = expiry.looked_for_by_changes(run.keys.prefix)}, function()
    local missing = selection.missing_field(run, selector)
    if missing then return redis.error_reply('FLEET NOT_FOUND ' .. missing) end
    local reported = report ~= '' and reporting.take(run, request, cmsgpack.unpack(report))
    if reported then
      if reported[1] ~= 'done' and reported[1] ~= 'repeated' then return {run.now, reported, false, false} end
      selector.other_than = reported[2]
    end
    local capabilities = agents.meet(run, agent, who).capabilities
    selector.capabilities = capabilities ~= '' and capabilities or nil
    local drained = not run.absent[run.keys.agent_drains] and agent_drains.of(run, agent) or nil
    local claim, item = kept(run, agent, worker)
    local start = item and work.begin(run, item, agent, by)
    local told = budgets.against(run, item and item.id or selector.parent or selector.ancestor, agent)
    if not item and (worker[6] > 0 or drained or told) then
      claim = worker[6] > 0 and {'ended', '', 0, 0, 0} or finding.refusal(run, selector, agent)
    elseif not (item or run.absent[run.keys.paused]) and pauses.of_claims(run) then
      claim = MORE
    end
    if not claim then claim, item, start = claim_best(run, request, agent, ttl_ms, selector, worker, by) end
    if not item then return {run.now, reported, claim, false} end
    local begun = {included = included.of(run, item.id, include), filled = notes.schema_inputs(run, item)}
    begun.drained, begun.budget = drained, told
    return {run.now, reported, claim, start, begun}
  end)
end
