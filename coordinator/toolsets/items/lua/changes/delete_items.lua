--[[
purpose:   Deletes items, with `recursive` their subtrees, deepest first, a bounded number per step.
guarantee: An item is deleted only if it has no children, so nothing is orphaned, even by concurrent creates. If it
           has very many edges, some are deleted before it. If a step ends early, progress is recorded, so any
           process can continue. Repeated ids count once.
args:      request run.events_max run.terms run.config run.labels recursive budget ids state
           recursive = 1 or 0, ids = packed list, state = packed progress of the last step or ''
reply:     Deleted (store/items.py)
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
full:      deleting frees memory
--]]
local change_by_schema = require 'change_by_schema'
local erasure = require 'erasure'
local items = require 'items'
local tallies = require 'tallies'

local EDGE_COST = 0.6 -- cost of an edge or a note, in items

-- The state of a deletion in the table `work`: position, deleted, below, failures, met and list as in the reply;
-- listed = set of the ids in the list; gone = set of those in `met`; left = remaining budget of this step.
-- The list is part of the progress, because prefixes of deleted items cannot be resolved again.
local function start_work(ids, state, budget)
  local work = {position = 1, deleted = 0, below = 0, failures = {}, met = {}, listed = {}, gone = {}, left = budget}
  if state ~= '' then
    local _, position, deleted, below, failures, met, list = unpack(cmsgpack.unpack(state))
    work.position, work.deleted, work.below = position, deleted, below
    work.failures, work.met, work.list = failures, met, list
  else
    work.list = cmsgpack.unpack(ids)
  end
  for _, id in ipairs(work.list) do work.listed[id] = true end
  for _, id in ipairs(work.met) do work.gone[id] = true end
  return work
end

-- Removes an item without children; false if the budget is used up first.
local function remove(run, work, item)
  local removed, more
  repeat
    removed, more = erasure.erase(run, item)
    work.left = work.left - (removed and 1 or 0) - more * EDGE_COST
  until removed or work.left <= 0
  if not removed then return false end
  work.deleted = work.deleted + 1
  if work.listed[item.id] then
    work.met[#work.met + 1], work.gone[item.id] = item.id, true
  else
    work.below = work.below + 1
  end
  return true
end

-- Removes a subtree, deepest items first; false if the budget is used up first.
local function remove_subtree(run, work, id)
  for _, child in ipairs(redis.call('ZRANGE', run.keys.ranked .. 'p' .. id, 0, math.ceil(work.left))) do
    if work.left <= 0 or not remove_subtree(run, work, child) then return false end
  end
  return work.left > 0 and remove(run, work, items.load(run, id))
end

-- Handles the next id of the list.
local function take_next(run, work, recursive)
  local id, refusal = work.list[work.position], nil
  if not items.load(run, id) then
    refusal = not work.gone[id] and {work.position, items.absence_reason(id), 0}
  elseif not recursive and tallies.first_child(run, id) then
    refusal = {work.position, 'has_children', tallies.count_children(run, id)}
  elseif not remove_subtree(run, work, id) then
    return
  end
  if refusal then work.failures[#work.failures + 1] = refusal end
  work.position = work.position + 1
end

-- The failures without those of ids that were rejected for their children and repeated after these.
local function remaining_failures(work)
  local failures = {}
  for _, refusal in ipairs(work.failures) do
    if not work.gone[work.list[refusal[1]]] then failures[#failures + 1] = refusal end
  end
  return failures
end

return function(run, request, recursive, budget, ids, state)
  return change_by_schema(run, request, {}, function(progress)
    local work = start_work(ids, progress or state, tonumber(budget))
    while work.position <= #work.list and work.left > 0 do take_next(run, work, recursive == '1') end
    erasure.finish(run)
    local done = work.position > #work.list
    local failures, list = work.failures, work.list
    if done then failures, list = remaining_failures(work), {} end
    return {done, work.position, work.deleted, work.below, failures, work.met, list}, done and 'D' or 'P'
  end)
end
