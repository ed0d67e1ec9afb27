-- @include blockers
-- @include schema
-- @include events
-- Role changes with everything that follows from one, in the same script: dependents, cascades to ancestors, the audit
-- row, the event. `run` holds what a whole call shares: now, events_max, config, labels (by trigger; packed until one
-- is needed). `author` = {id, actor, verification, summary}: who is on record for a change, texts, '' for nobody.

-- Where a trigger takes the item, or nil and why not (seed 004, trigger effects).
local function target_role(item, trigger, schema)
  local role = item.role
  if trigger == 'reopen' then
    if role ~= TERMINAL then return nil, 'not_terminal' end
    return QUEUE
  end
  if role == TERMINAL then return nil, 'terminal' end
  if trigger == 'cancel' then return TERMINAL end
  if trigger == 'resume' then
    if role ~= BLOCKED then return nil, 'not_blocked' end
    return tonumber(item.pr or QUEUE) -- an item that was created as blocked has no previous role
  end
  if role == BLOCKED then
    return nil, (trigger == 'block' or trigger == 'hold') and 'already_blocked' or 'blocked'
  end
  if trigger == 'block' or trigger == 'hold' then return BLOCKED end
  if trigger == 'complete' or role == REVIEW then return TERMINAL end
  if role == QUEUE then return WORK end
  return schema and schema.review and REVIEW or TERMINAL
end

-- The label that the configuration has for a trigger; false for none.
local function configured_label(run, trigger)
  if type(run.labels) == 'string' then run.labels = cmsgpack.unpack(run.labels) end
  return run.labels[trigger] or false
end

-- The label that goes with the change; false clears it. Entering BLOCKED keeps the present one when
-- the trigger has none; a start that ends the item is labelled like a completion.
local function label_after(item, to, trigger, run)
  if trigger == 'start' and to == TERMINAL then return configured_label(run, 'complete') end
  local label = configured_label(run, trigger)
  if not label and to == BLOCKED then return item.lb or false end
  return label
end

-- Puts on record that the item went from a role to its present one; `save_item` is to follow.
local function record_transition(item, before, trigger, from_label, run, author)
  local row = {
    item.id, before, item.role, trigger, from_label or '', item.lb or '', author.summary, author.actor,
    author.verification, item.tl,
  }
  local entry = redis.call('XADD', K_TRANSITIONS, 'MAXLEN', '~', run.events_max, '*', 'r', cmsgpack.pack(row))
  set_field(item, 'tl', entry)
  emit(run.events_max, 'transition', item.id, 'g', trigger, 'f', before, 't', item.role, 'a', author.id)
end

-- Changes the role and all that depends on it; returns the items that this leaves unblocked.
local function change_role(item, to, trigger, label, run, author)
  local before, from_label = item.role, item.lb
  set_field(item, 'pr', to == BLOCKED and tostring(before))
  set_field(item, 'lb', label)
  -- Later than the claim with which it comes to review, so that a reviewer's claim can be told from that.
  set_field(item, 'ra', whole(to == REVIEW and item.fence and math.max(run.now, item.fence + 1) or run.now))
  set_field(item, 'tk', nil)
  local by_itself = trigger == 'cascade' or before == TERMINAL or item.u
  set_field(item, 'u', to ~= TERMINAL and item.fence and not item.holder and by_itself and '1')
  set_modified(item, run.now)
  move_to_class(item, is_held(item) and to * STATES + HELD or unclaimed_class(item, to))
  record_transition(item, before, trigger, from_label, run, author)
  save_item(item)
  return update_dependents(item, before, run.events_max)
end

-- The role that the parent should get because `child` went to child.role by `trigger`, and its label; nil: none. Reads
-- as little of the parent as possible, because nearly always nothing follows.
local function cascade_target(child, trigger, run)
  local id = child.pa
  if child.role == WORK then
    if load_role(id) == QUEUE then return WORK, configured_label(run, 'start') end
  elseif child.role == TERMINAL then
    if not all_children_terminal(id) or load_role(id) == TERMINAL then return nil end
    if may_cascade(schema_of(load_item(id), run.config)) then return TERMINAL, configured_label(run, 'cascade') end
  elseif trigger == 'reopen' and load_role(id) == TERMINAL then -- whatever the parent's lifecycle is (seed 004)
    return WORK, configured_label(run, 'start')
  end
end

-- Walks up the ancestors of an item that has just changed. Appends to `events` the cascade events {id, title, from, to,
-- applied, missing keys, their phases}, and to `unblocked_items` those that each applied one unblocks.
local function cascade_upwards(child, trigger, run, events, unblocked_items)
  while child.pa do
    local to, label = cascade_target(child, trigger, run)
    if not to then return end
    local parent = load_item(child.pa)
    local from = parent.role
    local schema = to == TERMINAL and schema_of(parent, run.config)
    local missing, phases = {}, {}
    if schema then missing, phases = missing_notes(parent, schema, nil) end
    events[#events + 1] = {parent.id, title_of(parent), from, to, #missing == 0, missing, phases}
    if #missing > 0 then return end
    local author = {id = '', actor = '', verification = '', summary = 'cascade from a child item'}
    for _, item in ipairs(change_role(parent, to, 'cascade', label, run, author)) do
      unblocked_items[#unblocked_items + 1] = item
    end
    child = parent
  end
end

-- {id, title} of each, once; without those that a cascade has blocked again (`followed`: whether there were cascades).
local function named_unblocked(items, followed)
  local list, seen = {}, {}
  for _, item in ipairs(items) do
    local now = loaded[item.id] or followed and load_blocker_count(item.id) or item
    if not seen[item.id] and is_unblocked(now) then
      seen[item.id] = true
      list[#list + 1] = {item.id, title_of(item)}
    end
  end
  return list
end
