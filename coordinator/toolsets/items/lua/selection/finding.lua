-- The steps of a claim by selector (claim_next.lua).
-- owns: none
local abandoned = require 'abandoned'
local agent_drains = require 'agent_drains'
local budgets = require 'budgets'
local debts = require 'debts'
local expiry = require 'expiry'
local holders = require 'holders'
local pauses = require 'pauses'
local requests = require 'requests'
local resources = require 'resources'
local selection = require 'selection'
local selectors = require 'selectors'
local serve = require 'serve'

local finding = {}

local FIRST_ONES = 4 -- of a queue: the first ones may leave it
local SCAN_MAX = 200 -- candidates checked per call, and expired claims put back

-- The packed selector to park with, and the name of its queue; `packed` and `queue` = those of the selector without the
-- capabilities of the agent.
function finding.parked_selector(selector, packed, queue)
  if not selector.capabilities then return packed, queue end
  return cmsgpack.pack(selector), queue .. string.sub(redis.sha1hex(selector.capabilities), 1, 16)
end

-- Why an agent may only renew, as a refused claim: it is drained, or claims are paused; else nil.
function finding.bar(run, agent)
  local drained = not run.absent[run.keys.agent_drains] and agent_drains.of(run, agent)
  if drained then return {'agent_draining', '', 0, 0, 0, {drained = drained}} end
  local pause = pauses.of_claims(run)
  return pause and pauses.refusal(pause)
end

-- Why an agent gets nothing, as a refused claim: as above, its budget is spent, or that of all matches; else nil. Who
-- `waits` is not refused because of a pause: the second value says that there is one.
function finding.refusal(run, selector, agent, waits)
  local barred = not (run.absent[run.keys.agent_drains] and run.absent[run.keys.paused]) and finding.bar(run, agent)
  local paused = barred and waits and pauses.is_refusal(barred)
  if barred and not paused then return barred end
  local told = budgets.against(run, selector.parent or selector.ancestor, agent)
  return told and budgets.refusal(run, '', told), paused
end

-- Puts up to `budget` expired claims back; the items may go to earlier waiters. Returns whether none are left, and if
-- this call cannot search then, its reply.
function finding.sweep(run, request, waiter, budget)
  local none_left = expiry.sweep(run, budget)
  if not run.absent[run.keys.waiting] then serve.parked_calls(run) end
  if waiter and requests.is_answered(run, request) then return none_left, {} end -- it got one: the reply is recorded
  -- There are more for earlier waiters.
  if debts.are_left(run) then return none_left, redis.error_reply('FLEET UNSETTLED') end
  return none_left, nil
end

-- The best item from a cursor on, or nil; and the cursor if the search stopped early, else nil.
function finding.search(run, selector, agent, after, some_abandoned)
  some_abandoned = some_abandoned or abandoned.was_noted(run)
  local class_list = selectors.claimable_classes(selector, some_abandoned)
  local from = after ~= '' and selection.parse_cursor(after) or nil
  local search = {selector = selector, agent = agent, wanted = 1}
  local stopped, found = selection.select(run, search, class_list, from, SCAN_MAX, nil)
  return found, stopped
end

-- After how many ms a parked call is to search again by itself, because units per minute come back then; 0: never. The
-- others of its queue follow when it gets something, but for what is assigned.
function finding.search_again_ms(run, queue, id, agent)
  local refill_ms = resources.refill_ms(run)
  if not refill_ms then return 0 end
  local first = (redis.call('ZRANK', run.keys.queue .. queue, id) or 0) < FIRST_ONES
  return (first or holders.has_own(run, queue, agent)) and refill_ms or 0
end

finding.SCAN_MAX = SCAN_MAX

return finding
