-- @include blockers
-- @include schema
-- @include events
-- Role changes with everything that follows from one, in the same script: dependents, cascades up the
-- chain, the audit row, the event. `run` holds what a whole call shares: now, cap (events kept),
-- config, labels (by trigger; packed until one is needed).

-- Where a trigger takes the item, or nil and why not (seed 004, trigger effects).
local function target_role(it, trigger, schema)
  local role = it.role
  if trigger == 'reopen' then
    if role ~= TERMINAL then return nil, 'not_terminal' end
    return QUEUE
  end
  if role == TERMINAL then return nil, 'terminal' end
  if trigger == 'cancel' then return TERMINAL end
  if trigger == 'resume' then
    if role ~= BLOCKED then return nil, 'not_blocked' end
    if not it.pr then return nil, 'no_previous_role' end
    return tonumber(it.pr)
  end
  if role == BLOCKED then
    return nil, (trigger == 'block' or trigger == 'hold') and 'already_blocked' or 'blocked'
  end
  if trigger == 'block' or trigger == 'hold' then return BLOCKED end
  if trigger == 'complete' or role == REVIEW then return TERMINAL end
  if role == QUEUE then return WORK end
  return schema and schema.review and REVIEW or TERMINAL
end

local function label_of(run, trigger)
  if type(run.labels) == 'string' then run.labels = cmsgpack.unpack(run.labels) end
  return run.labels[trigger] or false
end

-- The label that goes with the change; false clears it. Entering BLOCKED keeps the present one when
-- the trigger has none; a start that ends the item is labelled like a completion.
local function label_for(it, to, trigger, run)
  if trigger == 'start' and to == TERMINAL then return label_of(run, 'complete') end
  local label = label_of(run, trigger)
  if not label and to == BLOCKED then return it.lb or false end
  return label
end

-- Changes the role and all that depends on it; returns the items that this leaves unblocked.
local function change_role(it, to, trigger, label, run, by)
  local before, from_label = it.role, it.lb
  put(it, 'pr', to == BLOCKED and tostring(before))
  put(it, 'lb', label)
  put(it, 'ra', whole(run.now))
  touch(it, run.now)
  move(it, is_held(it) and to * 3 + HELD or resting(it, to))
  save(it)
  local row = {it.id, before, to, trigger, from_label or '', label or '', by.summary, by.actor, by.verification}
  redis.call('XADD', K_TRANSITIONS, 'MAXLEN', '~', run.cap, '*', 'r', cmsgpack.pack(row))
  emit(run.cap, 'transition', it.id, 'g', trigger, 'f', before, 't', to, 'a', by.id)
  return role_moved(it, before, run.cap)
end

-- What the parent should become because `child` went to child.role by `trigger`, and its label. Looks at no more of
-- the parent than it has to: nearly always nothing follows.
local function cascade_target(child, trigger, run)
  local id = child.pa
  if child.role == WORK then
    if role_at(id) == QUEUE then return WORK, label_of(run, 'start') end
  elseif child.role == TERMINAL then
    if not all_children_terminal(id) or role_at(id) == TERMINAL then return nil end
    if may_cascade(schema_of(load(id), run.config)) then return TERMINAL, label_of(run, 'cascade') end
  elseif trigger == 'reopen' and role_at(id) == TERMINAL and may_cascade(schema_of(load(id), run.config)) then
    return WORK, label_of(run, 'start')
  end
end

-- Walks up the chain from an item that has just changed. Appends cascade events
-- {id, title, from, to, applied, missing keys} and the items that each applied one unblocks.
local function cascade(child, trigger, run, events, open)
  while child.pa do
    local to, label = cascade_target(child, trigger, run)
    if not to then return end
    local parent = load(child.pa)
    local from = parent.role
    local schema = to == TERMINAL and schema_of(parent, run.config)
    local missing = schema and missing_notes(parent, schema, nil) or {}
    events[#events + 1] = {parent.id, title(parent), from, to, #missing == 0, missing}
    if #missing > 0 then return end
    local by = {id = '', actor = '', verification = '', summary = 'cascade from a child item'}
    for _, item in ipairs(change_role(parent, to, 'cascade', label, run, by)) do open[#open + 1] = item end
    child = parent
  end
end

-- {id, title} of each, once; without those that a cascade has blocked again.
local function named(items)
  local list, seen = {}, {}
  for _, it in ipairs(items) do
    if not seen[it.id] and is_open(it) then
      seen[it.id] = true
      list[#list + 1] = {it.id, title(it)}
    end
  end
  return list
end
