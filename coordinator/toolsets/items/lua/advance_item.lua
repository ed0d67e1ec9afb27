--[[
purpose:   Applies trigger-based transitions one after the other, each with everything that follows from it.
guarantee: Each element is applied completely or not at all: ownership, fence, dependencies and gates are
           checked in the step that changes the item, cascades included. The first `start` of an agent that took over an
           abandoned item begins its work again: it leaves the item in its role, and is on record.
args:      request run.events_max run.config run.labels changes
           labels = packed {trigger -> label}; changes = packed
           {id, trigger, trusted actor id or '', actor, verification, summary, fence or 0}
reply:     list of {id, reason or '', from, to, label, cascades, unblocked, title, schema inputs, verification, blocked
           again}. If the first transitions change items with very many edges or tags, the list ends early; the caller
           sends the rest
           applied: reason ''; cascades {id, title, from, to, applied, missing keys, phases}; unblocked {id, title};
           verification as recorded; blocked again = ids of items with one more unsatisfied blocker
           refused: in place of cascades, for dependencies {blocker, role, needed}, for gate {missing
           keys, phases}, for claim {expires, whether no actor was given}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
writes:    item ranked beneath owed leases agents holds lapsed abandoned notes note request events transitions waiting
           wanted queue waiter messages
--]]
local blockers = require 'blockers'
local change = require 'change'
local claims = require 'claims'
local classes = require 'classes'
local graph = require 'graph'
local items = require 'items'
local notes = require 'notes'
local schemas = require 'schemas'
local transitions = require 'transitions'

local BLOCKED = classes.BLOCKED
local EDGES_AT_ONCE = blockers.EDGES_AT_ONCE

local LOOKED_AHEAD_MAX = 10 -- items whose edges are looked for beforehand
local TAG_ENTRIES_MAX = 500 -- of tags and types that a call writes for the items it moves

-- An entry of the reply for a transition that is not applied; `detail` is nil where the reason has none.
local function refusal(run, item, reason, detail)
  local inputs = notes.schema_inputs(run, item)
  return {item.id, reason, item.role, item.role, false, detail or {}, {}, items.title_of(run, item), inputs}
end

-- An entry of the reply for a transition that is applied.
local function applied(run, item, from, author, cascades, unblocked, blocked_again)
  return {item.id, '', from, item.role, item.lb or false, cascades, unblocked, items.title_of(run, item),
    notes.schema_inputs(run, item), author.verification, blocked_again}
end

local function waits_for_blockers(run, item)
  return refusal(run, item, 'dependencies', graph.unsatisfied_blockers(run, item))
end

-- The first start of an agent that took over an abandoned item: the item stays in its role.
local function begin_again(run, item, trigger, author)
  if item.nb then return waits_for_blockers(run, item) end
  items.set(item, 'tk', nil)
  items.set_modified(run, item)
  transitions.record(run, item, item.role, trigger, item.lb, author)
  items.save(run, item)
  return applied(run, item, item.role, author, {}, {}, nil)
end

-- Applies a transition that the claim on the item allows.
local function apply(run, item, trigger, author)
  local schema = schemas.of(run, item)
  local to, problem = transitions.target_role(item, trigger, schema)
  if not to then return refusal(run, item, problem) end
  local from = item.role
  local forward = from ~= BLOCKED and to ~= BLOCKED and to > from
  if forward and trigger ~= 'cancel' and item.nb then return waits_for_blockers(run, item) end
  if schema and (trigger == 'start' or trigger == 'complete') then
    local missing, phases = schemas.missing_notes(run, item, schema, trigger == 'start' and from or nil)
    if #missing > 0 then return refusal(run, item, 'gate', {missing, phases}) end
  end
  local label, cascades = transitions.label_after(run, item, to, trigger), {}
  local unblocked_items = transitions.change_role(run, item, to, trigger, label, author)
  transitions.cascade_upwards(run, item, trigger, cascades, unblocked_items)
  local unblocked = transitions.named_unblocked(run, unblocked_items, #cascades > 0)
  return applied(run, item, from, author, cascades, unblocked, run.blocked_again)
end

-- Returns the entry of the reply for one element of `changes`.
local function advance(run, id, trigger, actor, actor_json, verification, summary, fence)
  run.blocked_again = {}
  local item = items.load(run, id)
  if not item then return {id, items.absence_reason(id), 0, 0, false, {}, {}, '', {false, false, false, {}}} end
  if claims.is_live(run, item) and item.holder ~= actor then
    return refusal(run, item, 'claim', {item.expires, actor == ''})
  end
  if fence > 0 and fence ~= (item.fence or 0) then return refusal(run, item, 'stale_fence') end
  local author = {id = actor, actor = actor_json, verification = verification, summary = summary}
  local taken_over = item.tk and tonumber(item.tk) == item.fence and item.holder == actor
  if trigger == 'start' and taken_over then return begin_again(run, item, trigger, author) end
  return apply(run, item, trigger, author)
end

-- The keys of the edges of the items of `list`, if these are few: mostly there are none, and change.lua finds that out.
local function edge_keys(run, list)
  local edges = run.keys.edges
  if not list[2] then return edges .. list[1][1] end
  if #list > LOOKED_AHEAD_MAX then return end
  local found = {}
  for n, element in ipairs(list) do found[n] = edges .. element[1] end
  return unpack(found)
end

return function(run, request, changes)
  local list = cmsgpack.unpack(changes)
  return change(run, request, function()
    if schemas.is_missing(run) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end
    if run.nothing_else and #list <= LOOKED_AHEAD_MAX then
      for _, element in ipairs(list) do run.edgeless[element[1]] = true end
    end
    local results = {}
    for n, element in ipairs(list) do
      if run.edges_visited > EDGES_AT_ONCE or run.tag_entries_written > TAG_ENTRIES_MAX then break end
      results[n] = advance(run, unpack(element))
    end
    return results
  end, nil, edge_keys(run, list))
end
