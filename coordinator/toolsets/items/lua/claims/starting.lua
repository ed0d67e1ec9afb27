-- What a call of claim_item does besides claims and releases: it starts the item that it gets, in the same step, and
-- ends items (releasing.lua). `author` = packed {actor, verification, config, labels (run.lua), whether to start}, ''
-- for a call that does neither. It comes with the call, because a parked one gets its item in the step of another.
-- owns: none
local claims = require 'claims'
local classes = require 'classes'
local schemas = require 'schemas'
local transitions = require 'transitions'
local triggers = require 'triggers'
local work = require 'work'

local QUEUE, WORK = classes.QUEUE, classes.WORK

local starting = {}

-- Calls act(author unpacked), which decides by the schemas and labels of the front-end of the call.
function starting.act_as(run, author, act)
  local unpacked, config, labels = cmsgpack.unpack(author), run.config, run.labels
  run.config, run.labels = unpacked[3], unpacked[4]
  local result = act(unpacked)
  run.config, run.labels = config, labels
  return result
end

-- Whether the configuration of the author is missing (schemas.lua).
function starting.lacks_config(run, author)
  return starting.act_as(run, author, function() return schemas.is_missing(run) end)
end

-- Places a claim as `claims.acquire` does. Starts its item if that is asked for, and adds to the claim what came of it:
-- an entry as triggers.lua has it.
function starting.claim(run, item, agent, ttl_ms, selector, taken, author)
  if (author or '') == '' then return claims.acquire(run, item, agent, ttl_ms, selector, taken) end
  return starting.act_as(run, author, function(by)
    if not by[5] then return claims.acquire(run, item, agent, ttl_ms, selector, taken) end
    local claim, start = work.claim(run, item, agent, ttl_ms, selector, taken, by)
    local further = claim[6] or {}
    claim[6], further.start = further, start or triggers.refusal(run, item, 'not_on_offer')
    if further.role then further.role = item.role end
    return claim
  end)
end

-- Puts an item back to the role before its start, if that was made under its claim and nothing has changed it since;
-- and to the label, if it still has that of the start. What has followed from the start stays.
function starting.undo(run, item, agent, author)
  local entry = item.role == WORK and item.role_changed_at >= item.first_claimed_at and item.last_entry
  local found = entry and redis.call('XRANGE', run.keys.transitions, entry, entry)[1]
  local id, before, _, trigger, label, started = unpack(found and cmsgpack.unpack(found[2][2]) or {})
  if id ~= item.id or before ~= QUEUE or trigger ~= 'start' then return end
  if (item.lb or '') ~= started then label = item.lb or '' end -- somebody has given it another one
  local by = {id = agent, actor = author[1], verification = author[2], summary = ''}
  transitions.change_role(run, item, QUEUE, 'untouched', label ~= '' and label, by)
end

return starting
