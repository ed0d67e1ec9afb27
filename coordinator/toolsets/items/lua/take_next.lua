--[[
purpose:   Completes a worker's item, claims the best one for a selector and starts it, in one step.
guarantee: If the completion is rejected, nothing else happens. Claim and start are those of claim_next and
           advance_item; the three are atomic. The search is that of one call: `more` means that the caller has to
           continue with claim_next.
args:      request run.events_max run.attempts run.config run.labels agent who ttl_ms packed_selector finished author
           who = for modules/agents.lua;
           finished = packed as an element of advance_item's changes, '' for none; author = packed {actor,
           verification} of the start; the detail of NOT_FOUND is the field with the unknown item
reply:     {now, entry of the completion or false, claim or false, entry of the start or false}: the claim as that of
           claim_next, or {more, '', 0, 0, 0}; entries as those of advance_item. An item in another role than queue
           is not started, unless it was abandoned
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN NOT_FOUND UNSETTLED
writes:    item text ranked beneath owed leases agents agent_seen agent_attempts holds lapsed abandoned retries
           quarantined notes note request events transitions waiting wanted queue waiter messages
--]]
local agent_drains = require 'agent_drains'
local agents = require 'agents'
local change = require 'change'
local claims = require 'claims'
local classes = require 'classes'
local expiry = require 'expiry'
local schemas = require 'schemas'
local selection = require 'selection'
local serve = require 'serve'
local triggers = require 'triggers'

local QUEUE = classes.QUEUE

local SCAN_MAX = 200 -- candidates checked
local MORE = {'more', '', 0, 0, 0}

-- The best item for a selector, or nil. Newly ready items go to parked calls first.
local function find(run, selector, agent)
  local none_left = expiry.sweep(run)
  serve.parked_calls(run)
  if run.has_debts or not none_left then return nil end -- the indexes are not up to date yet
  local some_abandoned = not run.nothing_else or run.abandoned_noted
  local class_list = selection.claimable_classes(selector, some_abandoned)
  local _, found = selection.select(run, selector, class_list, agent, nil, SCAN_MAX, 1, nil)
  return found
end

return function(run, request, agent, who, ttl_ms, packed_selector, finished, author)
  local selector = cmsgpack.unpack(packed_selector)
  return change(run, request, function()
    if schemas.is_missing(run) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end
    local missing = selection.missing_field(run, selector)
    if missing then return redis.error_reply('FLEET NOT_FOUND ' .. missing) end
    local capabilities = agents.meet(run, agent, who).capabilities
    selector.capabilities = capabilities ~= '' and capabilities or nil
    local completion = finished ~= '' and triggers.advance(run, unpack(cmsgpack.unpack(finished)))
    if completion and completion[2] ~= '' then return {run.now, completion, false, false} end
    local drained = agent_drains.of_caller(run, agent)
    if drained then return {run.now, completion, {'agent_draining', drained, 0, 0, 0}, false} end
    local found = find(run, selector, agent)
    if not found then return {run.now, completion, MORE, false} end
    local claim, start = claims.acquire(run, found, agent, tonumber(ttl_ms), selector), false
    if found.role == QUEUE or claim[7] then
      local actor, verification = unpack(cmsgpack.unpack(author))
      start = triggers.advance(run, found.id, 'start', agent, actor, verification, '', found.fence)
    end
    return {run.now, completion, claim, start}
  end, nil, run.keys.agent_drains, expiry.keys(run))
end
