--[[
purpose:   Updates fields of items, each item atomically.
guarantee: An update is applied completely or not at all. A move under another parent first checks cycles and the
           depth of the whole subtree, and changes its depths in the same step. One of more than 700 items keeps its.
args:      request run.events_max run.terms run.config run.labels updates
           updates = packed list of {id, fields}; fields by letter as in items.lua, p priority,
           c complexity; false clears, rs = '' for no demands, false for those by default, pa = '' moves to the root;
           may_raise: whether the caller may raise budgets; shown: values that the caller was shown, as text
reply:     list of Updated (store/items.py)
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
local apart = require 'apart'
local budgets = require 'budgets'
local change_by_schema = require 'change_by_schema'
local children = require 'children'
local classes = require 'classes'
local creation = require 'creation'
local demands = require 'demands'
local due_times = require 'due_times'
local events = require 'events'
local held_back = require 'held_back'
local index = require 'index'
local item_events = require 'item_events'
local items = require 'items'
local obstacles = require 'obstacles'
local reparent = require 'reparent'
local requirements = require 'requirements'
local resources = require 'resources'

local NO_COMPLEXITY, TERMINAL = classes.NO_COMPLEXITY, classes.TERMINAL

-- The item's score with the given priority and complexity; nil keeps the current one, false clears a complexity.
local function new_score(item, priority, complexity)
  if complexity == nil then complexity = classes.complexity_of(item.score) end
  priority = priority or classes.priority_of(item.score)
  return classes.score_of(item.class, priority, complexity or NO_COMPLEXITY, classes.created_of(item.score))
end

-- One update; returns its entry of the reply.
local function update(run, id, fields)
  local item = items.load(run, id)
  if not item then return {items.absence_reason(id), id, 0, false} end
  local other = items.not_as_shown(run, item, fields.shown)
  if other then return {'changed ' .. other, id, 0, false} end
  if due_times.is_wrong(item, fields) then return {'due_of_template', id, 0, false} end
  local raised = fields.bu ~= nil and not fields.may_raise and budgets.allows_more(item.bu, fields.bu)
  if raised then return {'budget_not_raised', id, 0, false} end
  local demanded = demands.after(run, item, fields)
  local missing, wait, busy = obstacles.missing(run, item, item.role ~= TERMINAL and demanded)
  if wait then return {'busy ' .. busy, id, 0, false} end
  local moves, shift, below, above, root_before = fields.pa ~= nil and fields.pa ~= (item.pa or '')
  if moves then
    shift, below, above = reparent.plan(run, item, fields.pa, fields.may_raise)
    if not shift then return {below, id, 0, false} end
    root_before = item_events.root_of(run, item)
  end
  local set_before, set = item.rq, fields.rq
  local full = set and set ~= set_before and not requirements.count(run, set)
  if full then return {'too_many_requirements', id, 0, false} end
  local entries_before, apart_before = index.entries_of(item), item.as and apart.set_of(item)
  local causes_before = apart.causes_of(item)
  index.set_class(run, item, item.class) -- it may match other selectors now
  items.set(item, 'score', new_score(item, fields.p, fields.c))
  for field, value in pairs(fields) do items.give(run, item, field, value) end
  apart.update_demands(run, item, fields.rs, demanded)
  resources.take_further(run, item, missing)
  due_times.change_due(run, item, fields)
  apart.update(run, item, causes_before)
  if moves then reparent.apply(run, item, fields.pa, shift, below) end
  if item.ch and (fields.y ~= nil or fields.g ~= nil) then children.changed(run, id) end -- another lifecycle
  items.set_modified(run, item)
  index.reindex(run, item, entries_before)
  if apart_before then apart.refresh(run, apart_before, item.class) end
  if item.as then apart.refresh(run, apart.set_of(item), item.class) end
  if set_before and set_before ~= item.rq then requirements.discount(run, set_before, 1) end
  items.save(run, item)
  local no_backoff = fields.rb == 0 and item.nt and not held_back.is_quarantined(item)
  if no_backoff then held_back.let_go(run, item) end
  if fields.st ~= nil then held_back.place(run, item) end
  due_times.change(run, item, fields)
  if fields.bu ~= nil then budgets.judge(run, item) end
  if moves and item_events.root_of(run, item) ~= root_before then -- its former tree has to hear of it, too
    events.emit(run, 'update', id, unpack(root_before and {'R', root_before} or {}))
  end
  item_events.emit(run, 'update', item)
  if above then creation.reopen_parent(run, above) end
  return {'updated', id, item.modified_at, item.rv ~= nil}
end

return function(run, request, updates)
  return change_by_schema(run, request, {}, function()
    local results = {}
    for n, one in ipairs(cmsgpack.unpack(updates)) do results[n] = update(run, one[1], one[2]) end
    return results
  end)
end
