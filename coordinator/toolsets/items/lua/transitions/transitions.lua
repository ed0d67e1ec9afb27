-- Role changes with all consequences in the same step: dependents, cascades to ancestors, history, event. Operations
-- that use this module have the arguments run.config and run.labels. `author` = {id, actor, verification, summary}: the
-- recorded author of a change, texts, '' for nobody; and the key of the note that comes with it, if any.
-- owns: item.pr
local available = require 'available'
local blockers = require 'blockers'
local bounds = require 'bounds'
local budgets = require 'budgets'
local children = require 'children'
local claim_ends = require 'claim_ends'
local classes = require 'classes'
local demands = require 'demands'
local due_times = require 'due_times'
local held_back = require 'held_back'
local holds = require 'holds'
local index = require 'index'
local item_events = require 'item_events'
local items = require 'items'
local remembered = require 'remembered'
local resources = require 'resources'
local schemas = require 'schemas'

local QUEUE, WORK, REVIEW = classes.QUEUE, classes.WORK, classes.REVIEW
local TERMINAL, BLOCKED = classes.TERMINAL, classes.BLOCKED
local HELD, STATES = classes.HELD, classes.STATES

local transitions = {}

local ESCAPED = {['00'] = '\0', ['25'] = '%'} -- in run.labels
local LABELS_KEPT_MAX = 20

-- The role that a trigger leads to, or nil and why not.
function transitions.target_role(item, trigger, schema)
  local role = item.role
  if trigger == 'reopen' then
    if role ~= TERMINAL then return nil, 'not_terminal' end
    return QUEUE
  end
  if role == TERMINAL then return nil, 'terminal' end
  if trigger == 'cancel' then return TERMINAL end
  if trigger == 'resume' then
    if role ~= BLOCKED then return nil, 'not_blocked' end
    return tonumber(item.pr or QUEUE) -- an item created as blocked has no previous role
  end
  if role == BLOCKED then
    return nil, (trigger == 'block' or trigger == 'hold') and 'already_blocked' or 'blocked'
  end
  if trigger == 'block' or trigger == 'hold' then return BLOCKED end
  if trigger == 'complete' or role == REVIEW then return TERMINAL end
  if role == QUEUE then return WORK end
  return schema and schema.review and REVIEW or TERMINAL
end

-- The labels that the configuration has (run.labels), by their triggers.
transitions.labels_of = remembered(LABELS_KEPT_MAX, function(text)
  local labels = {}
  for trigger, label in string.gmatch(text, '%z([^%z=]+)=([^%z]*)') do
    labels[trigger] = string.gsub(label, '%%(%d%d)', ESCAPED)
  end
  return labels
end)

-- The label that goes with the change; false clears it. Entering BLOCKED keeps the present one when
-- the trigger has none; a start that ends the item is labelled like a completion.
function transitions.label_after(run, item, to, trigger)
  local labels = transitions.labels_of(run.labels)
  if trigger == 'start' and to == TERMINAL then return labels.complete or false end
  return labels[trigger] or to == BLOCKED and item.lb or false
end

-- Adds an entry to the item's history; `items.save` must follow.
function transitions.write(run, item, before, trigger, from_label, author)
  local row = {
    item.id, before, item.role, trigger, from_label or '', item.lb or '', author.summary, author.actor,
    author.verification, item.last_entry,
  }
  items.set(item, 'last_entry', item_events.append_transition(run, cmsgpack.pack(row)))
end

-- Records that the item went from a role to its current one; `items.save` must follow.
function transitions.record(run, item, before, trigger, from_label, author)
  transitions.write(run, item, before, trigger, from_label, author)
  local a, f, t = author.id, before, item.role
  if author.note then
    item_events.emit(run, 'transition', item, 'g', trigger, 'f', f, 't', t, 'a', a, 'n', author.note)
  else
    item_events.emit(run, 'transition', item, 'g', trigger, 'f', f, 't', t, 'a', a)
  end
end

-- `u` (items.lua) of an item that changes its role.
local function unclaimed_mark(item, to, trigger)
  if to == TERMINAL or not item.fence then return nil end
  local quarantined = item.nt and held_back.is_quarantined(item)
  local resumed = quarantined or item.u == '2' and (to == BLOCKED or item.role == BLOCKED)
  if resumed and not classes.is_held(item) then return '2' end
  local by_itself = trigger == 'cascade' or item.role == TERMINAL or item.u == '1'
  return by_itself and not item.holder and '1'
end

-- What follows when an item has become terminal, or is no longer, for its claim (`held`), its budget and its parent.
local function cross_terminal(run, item, held)
  local ended = item.role == TERMINAL
  if held and not item.ends_claim then claim_ends.note(run, item) end
  if held and not ended then holds.go_on(item) end
  if item.bx then budgets.cross_terminal(run, item) end
  if held and ended then
    holds.record(run, item, run.now, false)
    available.note(run, 'freed', item.id)
    if item.k then bounds.restore(run, item) end
  end
  if item.pa and ended then
    children.changed(run, item.pa)
  elseif item.pa then
    children.opened(run, item.pa)
  end
end

-- Changes the role and everything that depends on it; returns the items that become unblocked.
function transitions.change_role(run, item, to, trigger, label, author)
  local before, from_label = item.role, item.lb
  if item.pr or to == BLOCKED then items.set(item, 'pr', to == BLOCKED and tostring(before)) end
  items.set(item, 'lb', label)
  -- Later than the claim with which it comes to review, to distinguish that from a reviewer's claim.
  items.set(item, 'role_changed_at', to == REVIEW and item.fence and math.max(run.now, item.fence + 1) or run.now)
  if item.tk then items.set(item, 'tk', nil) end
  items.set(item, 'u', unclaimed_mark(item, to, trigger))
  if item.an and (before == TERMINAL or held_back.is_quarantined(item)) then items.set(item, 'an', 0) end -- anew
  if item.rs and (before == TERMINAL) ~= (to == TERMINAL) then
    demands.count(run, item.rs, to == TERMINAL and -1 or 1)
  end
  if item.rh and to == TERMINAL then resources.give_back(run, item) end
  if item.nt or item.nv or item.rc then held_back.finish(run, item, to) end
  if trigger == 'quarantine' then held_back.quarantine(run, item) end
  if item.ch then children.note_role(run, item, to) end
  items.set_modified(run, item)
  local held = classes.is_held(item)
  local goes_on = held and not item.ends_claim
  index.move_to_class(run, item, goes_on and to * STATES + HELD or classes.unclaimed_class(item, to))
  if (before == TERMINAL) ~= (to == TERMINAL) then cross_terminal(run, item, held) end
  transitions.record(run, item, before, trigger, from_label, author)
  if item.du or item.rc or item.oc then due_times.note_role(run, item, before) end
  if not item.ends_claim then items.save(run, item) end
  return blockers.update_dependents(run, item, before)
end

-- The role that the parent gets because `child` went to child.role by `trigger`, and its label; nil: none. Reads as
-- little of the parent as possible, because usually there is no cascade.
local function cascade_target(run, child, trigger)
  local id = child.pa
  if child.role == WORK then
    if items.load_role(run, id) == QUEUE then return WORK, transitions.labels_of(run.labels).start end
  elseif child.role == TERMINAL then
    local parent = children.have_ended(run, id) and items.load_role(run, id) ~= TERMINAL and items.load(run, id)
    local follows = parent and not parent.rc and schemas.may_cascade(schemas.of(run, parent))
    if follows then return TERMINAL, transitions.labels_of(run.labels).cascade end
  elseif trigger == 'reopen' and items.load_role(run, id) == TERMINAL then -- for any lifecycle of the parent
    return WORK, transitions.labels_of(run.labels).start
  end
end

-- Walks up the ancestors of an item that has just changed. Appends to `cascades` what happens to each: {id, title,
-- from, to, applied, missing keys, their phases}, and to `unblocked_items` those that each applied cascade unblocks.
function transitions.cascade_upwards(run, child, trigger, cascades, unblocked_items)
  while child.pa do
    local to, label = cascade_target(run, child, trigger)
    if not to then return end
    local parent = items.load(run, child.pa)
    local from = parent.role
    local schema = to == TERMINAL and schemas.of(run, parent)
    local missing, phases = {}, {}
    if schema then missing, phases = schemas.missing_notes(run, parent, schema, nil) end
    cascades[#cascades + 1] = {parent.id, items.title_of(run, parent), from, to, #missing == 0, missing, phases}
    if #missing > 0 then return end
    local author = {id = '', actor = '', verification = '', summary = 'cascade from a child item'}
    for _, item in ipairs(transitions.change_role(run, parent, to, 'cascade', label, author)) do
      unblocked_items[#unblocked_items + 1] = item
    end
    child = parent
  end
end

-- {id, title} of each, once; without those that have ended, and those blocked again by a cascade (`followed`: whether
-- there were cascades).
function transitions.named_unblocked(run, unblocked_items, followed)
  local list, seen = {}, {}
  for _, item in ipairs(unblocked_items) do
    local present = run.loaded[item.id] or followed and blockers.load_count(run, item.id) or item
    if not seen[item.id] and present.role ~= TERMINAL and blockers.is_unblocked(run, present) then
      seen[item.id] = true
      list[#list + 1] = {item.id, items.title_of(run, item)}
    end
  end
  return list
end

return transitions
