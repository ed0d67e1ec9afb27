--[[
purpose:   Completes or cancels items in a given order, a bounded number per call.
guarantee: Each item is checked and changed atomically: claim, dependencies, gate, role. Items that depend on a
           rejected item are skipped. Each call has its own record, and the first call's record has the order, so
           any process can continue after the last one. No cascades: the root of a tree is never completed.
args:      request run.events_max run.terms run.config run.labels trigger actor who budget plan position skipped
           who = packed {actor, verification}; plan = ids one after the other, 32 characters each (no id: not found);
           position, skipped (packed) = from the reply of the last call, or 1 and none
reply:     _Completion (store/trees.py), with Completed (store/trees.py) as JSON
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
local blockers = require 'blockers'
local change_by_schema = require 'change_by_schema'
local claims = require 'claims'
local classes = require 'classes'
local expiry = require 'expiry'
local graph = require 'graph'
local items = require 'items'
local schemas = require 'schemas'
local transitions = require 'transitions'

local EDGES_AT_ONCE = blockers.EDGES_AT_ONCE
local TERMINAL = classes.TERMINAL

-- The id at a position of the plan.
local function planned_id(plan, position)
  return string.sub(plan, 32 * position - 31, 32 * position)
end

-- All ids of the plan, as a set.
local function planned_ids(plan)
  local planned = {}
  for id in string.gmatch(plan, string.rep('.', 32)) do planned[id] = true end
  return planned
end

-- Appends the planned dependents of an item to the list `skipped`; `skips` = the same as a set.
local function skip_dependents(run, item, planned, skipped, skips)
  graph.each_edge(run, item.id, function(code, other)
    blockers.visit(run, 1)
    if graph.blocks_other(code) and planned[other] and not skips[other] then
      skips[other] = true
      skipped[#skipped + 1] = other
    end
  end)
end

-- Completes or cancels an item, if allowed. Returns the outcome, its detail, and whether the item's dependents are
-- skipped.
local function finish(run, item, trigger, author, is_skipped)
  if is_skipped then return 'skipped', 'dependency gate failed', true end
  claims.notice_expiry(run, item)
  if item.role == TERMINAL then return 'skipped', 'already terminal', false end
  if claims.is_live(run, item) and item.holder ~= author.id then return 'claimed', item.expires, true end
  local to = transitions.target_role(item, trigger, nil)
  if not to then return 'skipped', "Cannot transition: use 'resume' first", false end
  if trigger == 'complete' then
    if item.nb then return 'waiting', tonumber(item.nb), true end
    local schema = schemas.of(run, item)
    local missing, phases = {}, {}
    if schema then missing, phases = schemas.missing_notes(run, item, schema, nil) end
    if #missing > 0 then return 'gate', {missing, phases}, true end
  end
  local label = transitions.label_after(run, item, to, trigger)
  transitions.change_role(run, item, to, trigger, label, author)
  return 'applied', label, false
end

return function(run, request, trigger, actor, who, budget, plan, position, skipped)
  return change_by_schema(run, request, {looks_for = expiry.looked_for_by_changes(run.keys.prefix)}, function()
    expiry.sweep(run)
    local names, skipped_ids, skips, planned = cmsgpack.unpack(who), cmsgpack.unpack(skipped), {}, nil
    local author = {id = actor, actor = names[1], verification = names[2], summary = 'complete_tree'}
    for _, id in ipairs(skipped_ids) do skips[id] = true end

    local first, found = tonumber(position), {}
    local at, last = first, math.min(#plan / 32, first + budget - 1)
    while at <= last and blockers.edges_visited(run) <= EDGES_AT_ONCE do
      local id = planned_id(plan, at)
      local item = items.load(run, id)
      if item then
        local outcome, detail, spreads = finish(run, item, trigger, author, skips[id])
        found[#found + 1] = {id, items.title_of(run, item), outcome, detail}
        if spreads then
          planned = planned or planned_ids(plan)
          skip_dependents(run, item, planned, skipped_ids, skips)
        end
      else
        found[#found + 1] = {id, '', 'not_found', ''}
      end
      at = at + 1
    end
    local results = found[1] and cjson.encode(found) or '[]'
    return {32 * at > #plan, at, results, skipped_ids, first == 1 and plan or ''}
  end)
end
