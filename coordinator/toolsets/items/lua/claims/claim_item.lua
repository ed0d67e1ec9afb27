--[[
purpose:   Claims items in order, starts the one held in the end if that is asked for; makes releases (releasing.lua).
guarantee: One winner per item among any number of callers. The agent's earlier claim is released only after a new
           one was acquired. One claim per agent: of several claimable entries the last is acquired and the others
           are `superseded`, so every item reported as held is held.
args:      request run.events_max run.terms agent who wanted releases include author
           who = for agents.lua; wanted = packed {id, ttl_ms, fence, further demands (demands.lua) or
           nil, used}, releases = packed (releasing.lua); '' for none; fence 0 = none given; used = for `usage.add`, may
           be missing; include = as included.lua has it for the claimed item, '' for none; author = as starting.lua
reply:     ClaimReply (store/claims.py)
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
local agents = require 'agents'
local budgets = require 'budgets'
local change = require 'change'
local claim_parts = require 'claim_parts'
local claims = require 'claims'
local classes = require 'classes'
local expiry = require 'expiry'
local finding = require 'finding'
local holds = require 'holds'
local items = require 'items'
local obstacles = require 'obstacles'
local readiness = require 'readiness'
local releasing = require 'releasing'
local resources = require 'resources'
local starting = require 'starting'
local usage = require 'usage'

-- Adds what is told of few claims to a result.
local function tell(result, name, said)
  result[6] = result[6] or {}
  result[6][name] = said
end

-- Checks each claim in turn, without placing any. `barred` = why the agent may only renew, as a refused claim, or nil.
-- `budgeted` = whether a budget may be spent; `refused` = whether none is to be placed. Returns the results of the
-- others; and of the claim to place: item, number, ttl and what it takes of resources.
local function decide(run, agent, barred, budgeted, wanted, refused)
  local results, winner, place, ttl, taken = {}, nil, nil, nil, nil
  for n, claim in ipairs(wanted) do
    local id, fence, further = claim[1], claim[3], claim[4]
    local item = agents.item_of(run, agent) == id and readiness.load(run, id) or items.load(run, id)
    local outcome, wait, busy, needs = 'success', 0, nil, nil
    local older = item and fence > 0 and fence < (item.fence or 0)
    local renews = item and claims.is_live(run, item) and item.holder == agent
    if refused then
      outcome = 'release_refused'
    elseif not item then
      outcome = items.absence_reason(id)
    elseif item.role == classes.TERMINAL then
      outcome = 'terminal_item'
    elseif claims.is_live(run, item) and not renews then
      outcome, wait = 'already_claimed', item.expires - run.now
      if not older then holds.count_loser(run, item) end
    elseif barred and not renews then
      outcome = barred[1]
    elseif budgeted and not renews and budgets.against(run, id, agent) then
      outcome = 'budget_exhausted'
    elseif fence > 0 and (fence ~= item.fence or item.holder ~= agent) then
      outcome = 'stale_fence'
    else
      if further or not renews then item = items.load(run, id) end
      if further or item.rs and not renews then
        needs, wait, busy = obstacles.taken(run, item, agent, renews, further)
      end
      if busy then outcome = 'resource_busy' end
      if winner and not busy then results[place] = {'superseded', winner.id, 0, 0, 0} end
      if not busy then winner, place, ttl, taken = item, n, claim[2], needs end
    end
    if place ~= n then
      local result = {outcome, id, wait, 0, 0}
      if outcome == 'budget_exhausted' then result = budgets.refusal(run, id, budgets.against(run, id, agent)) end
      if barred and outcome == barred[1] then result = {outcome, id, barred[3], 0, 0, barred[6]} end
      if busy then tell(result, 'resources', busy) end
      if older then tell(result, 'older', true) end
      results[n] = result
    end
  end
  return results, winner, place, ttl, taken
end

return function(run, request, agent, who, wanted, releases, include, author)
  return change(run, request, {looks_for = expiry.looked_for_by_changes(run.keys.prefix)}, function()
    if author ~= '' and starting.lacks_config(run, author) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end
    agents.meet(run, agent, who)
    local made, refused = {}, false
    if releases ~= '' then made, refused = releasing.make_first(run, releases, agent, author) end
    local list = wanted ~= '' and cmsgpack.unpack(wanted) or {}
    local budgeted = run.settings.b or not run.absent[run.keys.spent_budgets]
    local barred = not (run.absent[run.keys.agent_drains] and run.absent[run.keys.paused]) and finding.bar(run, agent)
    local results, winner, place, ttl, taken = decide(run, agent, barred, budgeted, list, refused)
    local used = winner and list[place][5]
    if winner and winner.holder == agent and claims.is_live(run, winner) and classes.is_held(winner) then
      claims.renew(run, winner, ttl)
      if taken then resources.take_further(run, winner, taken) end
      results[place] = {'held', winner.id, run.now + ttl, winner.first_claimed_at, winner.fence}
      if used then usage.add(run, winner.id, agent, used) end
      local spent = (budgeted or used) and budgets.against(run, winner.id, agent)
      if spent then tell(results[place], 'budget', spent) end
    else
      winner = winner and items.load(run, winner.id)
      if winner and winner.holder then claims.notice_expiry(run, winner, winner.holder ~= agent) end
      expiry.sweep(run) -- not for a heartbeat, which affects no other claim
      if winner then
        if releases ~= '' then releasing.give_up(run, releases, agent, author, winner.id, made) end
        results[place] = author == '' and claims.acquire(run, winner, agent, ttl, nil, taken)
          or starting.claim(run, winner, agent, ttl, nil, taken, author)
        if used then usage.add(run, winner.id, agent, used) end
      end
    end
    if winner then
      local result, why = results[place], readiness.why_not(run, winner)
      if include ~= '' then claim_parts(run, result, include) end
      if why then tell(result, 'waiting', why) end
      if barred and barred[6].drained then tell(result, 'drained', barred[6].drained) end
    end
    return {run.now, results, releases ~= '' and releasing.make(run, releases, agent, author, made) or made}
  end)
end
