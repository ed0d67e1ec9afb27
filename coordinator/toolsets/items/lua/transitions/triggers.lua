-- Triggers: checks whether one may move an item (its claim, its dependencies, its gate), and applies it.
-- owns: none
local blockers = require 'blockers'
local children = require 'children'
local claims = require 'claims'
local classes = require 'classes'
local graph = require 'graph'
local items = require 'items'
local notes = require 'notes'
local obstacles = require 'obstacles'
local questions = require 'questions'
local resources = require 'resources'
local schemas = require 'schemas'
local transitions = require 'transitions'
local usage = require 'usage'

local BLOCKED, TERMINAL, WORK = classes.BLOCKED, classes.TERMINAL, classes.WORK

local triggers = {}

-- The result of a rejected transition; `detail` is nil if the reason has none.
function triggers.refusal(run, item, reason, detail)
  local inputs = notes.schema_inputs(run, item)
  return {item.id, reason, item.role, item.role, false, detail or {}, {}, items.title_of(run, item), inputs}
end

-- The result of an applied one.
local function applied(run, item, from, author, cascades, unblocked, blocked_again)
  return {item.id, '', from, item.role, item.lb or false, cascades, unblocked, items.title_of(run, item),
    notes.schema_inputs(run, item), author.verification, blocked_again}
end

local function waits_for_blockers(run, item)
  return triggers.refusal(run, item, 'dependencies', graph.unsatisfied_blockers(run, item))
end

-- Stores the result that comes with a transition, as a note of the phase that its schema says, else of its role.
local function store_result(run, item, schema, result, author)
  notes.store_result(run, item.id, schemas.phase_of(schema, item, notes.RESULT), result, author)
  author.note = notes.RESULT
end

-- The first start of an agent that took over an abandoned item: the item keeps its role.
local function begin_again(run, item, trigger, author)
  if item.nb then return waits_for_blockers(run, item) end
  items.set(item, 'tk', nil)
  items.set_modified(run, item)
  transitions.record(run, item, item.role, trigger, item.lb, author)
  items.save(run, item)
  return applied(run, item, item.role, author, {}, {}, nil)
end

-- Applies a transition that the claim on the item allows. A result counts as a note when the gate is judged, and is
-- stored once nothing can refuse the transition any more.
local function apply(run, item, trigger, author, result, blocked_again)
  local schema = schemas.of(run, item)
  local to, problem = transitions.target_role(item, trigger, schema)
  if not to then return triggers.refusal(run, item, problem) end
  if result and to ~= TERMINAL and not result[4] then return triggers.refusal(run, item, 'result', {to}) end
  local from = item.role
  local forward = from ~= BLOCKED and to ~= BLOCKED and to > from
  if forward and trigger ~= 'cancel' and item.nb then return waits_for_blockers(run, item) end
  if schema and (trigger == 'start' or trigger == 'complete') then
    local role, given = trigger == 'start' and from or nil, result and notes.RESULT
    local missing, phases = schemas.missing_notes(run, item, schema, role, given)
    if #missing > 0 then return triggers.refusal(run, item, 'gate', {missing, phases}) end
  end
  if item.rs and (from == TERMINAL or to == WORK) then
    local missing, wait, busy = obstacles.missing(run, item, item.rs)
    if wait then return triggers.refusal(run, item, 'resource_busy', {busy}) end
    resources.take_further(run, item, missing)
  end
  local parent = from == TERMINAL and item.pa and items.load(run, item.pa)
  if parent and parent.role == TERMINAL then obstacles.hold(run, parent) end -- it will follow
  if result then store_result(run, item, schema, result, author) end
  if from == BLOCKED then questions.note_end(run, item, trigger, author) end
  local label, cascades = transitions.label_after(run, item, to, trigger), {}
  local unblocked_items = transitions.change_role(run, item, to, trigger, label, author)
  if item.pa then transitions.cascade_upwards(run, item, trigger, cascades, unblocked_items) end
  local unblocked = unblocked_items[1] and transitions.named_unblocked(run, unblocked_items, #cascades > 0) or {}
  return applied(run, item, from, author, cascades, unblocked, blocked_again)
end

-- Applies a trigger to an item, with all consequences, or returns why not. `actor` = the trusted id of the caller's
-- actor, '' for nobody; `actor_json`, `verification`, `summary` = recorded; `fence` = 0: none; `result` = what
-- notes.store_result takes, nil or false: none; its fourth element: whether it may also come with a transition to
-- review; `used` = for `usage.add`, added if the transition is applied.
-- Returns {id, reason or '', from, to, label, cascades, unblocked, title, schema inputs, verification, blocked again};
-- for a rejection, its detail in place of the cascades (advance_item.lua).
function triggers.advance(run, id, trigger, actor, actor_json, verification, summary, fence, result, used)
  local blocked_again = blockers.list_blocked_again(run)
  local item = items.load(run, id)
  if not item then return {id, items.absence_reason(id), 0, 0, false, {}, {}, '', {false, false, false, {}}} end
  if item.holder then claims.notice_expiry(run, item) end
  if claims.is_live(run, item) and item.holder ~= actor then
    return triggers.refusal(run, item, 'claim', {item.expires, actor == '', fence > 0 and fence < item.fence})
  end
  if fence > 0 and fence ~= (item.fence or 0) then return triggers.refusal(run, item, 'stale_fence') end
  local author = {id = actor, actor = actor_json, verification = verification, summary = summary}
  local taken_over = item.tk and tonumber(item.tk) == item.fence and item.holder == actor
  local entry
  if trigger ~= 'start' or not taken_over then
    entry = apply(run, item, trigger, author, result, blocked_again)
  elseif result then
    return triggers.refusal(run, item, 'result', {item.role})
  else
    entry = begin_again(run, item, trigger, author)
  end
  children.settle(run)
  if used and entry[2] == '' then usage.add(run, id, actor, used) end
  return entry
end

return triggers
