-- Parents and their children. A child is open while it is not terminal. Selectors do not offer an item in queue or work
-- that has an open direct child (classes.lua), unless they ask for it. Once the last one has ended, was moved
-- away or deleted, and that has not ended the parent, it is ready: in queue as new; in work as plain work, which
-- selectors without a role find, too, until it is claimed or changes its role. A parent of lifecycle permanent is not,
-- as long as it has children.
--   ch of an item with children: '1' some are open; '2' none is, and it is permanent; '3' none is, and it is offered in
--     work; '0' none is. Nil: it has never had an open one
-- What a change of children means for their parents is decided once per operation (`children.settle`). In a call, by id
-- of a parent: changed, whether that is to be done; open, whether a child is open.
-- owns: item.ch
local classes = require 'classes'
local index = require 'index'
local items = require 'items'
local schemas = require 'schemas'
local tallies = require 'tallies'

local BLOCKED, QUEUE, TERMINAL, WORK = classes.BLOCKED, classes.QUEUE, classes.TERMINAL, classes.WORK

local children = {}

local NONE, OPEN, PERMANENT, ENDED = '0', '1', '2', '3'

local function own_of(run)
  run[children] = run[children] or {changed = {}, open = {}}
  return run[children]
end

-- Moves a parent to the class that follows from its children, and saves it.
local function place(run, parent)
  if not classes.is_held(parent) then
    local class = classes.unclaimed_class(parent, parent.role)
    if not parent.is_new then
      index.move_to_class(run, parent, class)
    elseif index.change_class(run, parent, class) then -- it is indexed later
      items.mark_changed(parent, 'score')
    end
  end
  items.save(run, parent)
end

-- An item has an open child now, perhaps its first.
function children.opened(run, id)
  own_of(run).open[id] = true
  local parent = items.load(run, id)
  if parent.ch == OPEN then return end
  items.set(parent, 'ch', OPEN)
  place(run, parent)
end

-- A child of an item has ended, or has come or gone without being open: `children.settle` must follow.
function children.changed(run, id)
  local own = own_of(run)
  own.changed[id], own.open[id] = true, nil
end

-- Whether no child of an item is open.
function children.have_ended(run, id)
  local open = own_of(run).open
  if open[id] == nil then open[id] = not tallies.all_children_terminal(run, id) end
  return not open[id]
end

-- `ch` of an item that is about to change its role.
function children.note_role(run, item, to)
  if item.ch == OPEN and own_of(run).changed[item.id] and children.have_ended(run, item.id) then
    items.set(item, 'ch', NONE)
  elseif item.ch == ENDED and to ~= WORK and to ~= BLOCKED then
    items.set(item, 'ch', NONE)
  end
  if item.ch and item.role == TERMINAL then children.changed(run, item.id) end
end

-- A parent that is offered in work is claimed. Returns whether its field has changed.
function children.note_claim(item)
  if item.ch == ENDED then items.set(item, 'ch', NONE) end
end

local function settle(run, parent)
  local lasts = parent.role ~= TERMINAL and schemas.is_permanent(schemas.of(run, parent))
  if lasts and tallies.first_child(run, parent.id) then
    items.set(parent, 'ch', PERMANENT)
  elseif parent.ch == OPEN then
    local role = parent.role == BLOCKED and tonumber(parent.pr or QUEUE) or parent.role
    items.set(parent, 'ch', role == WORK and not classes.is_left(parent, WORK) and ENDED or NONE)
  elseif not parent.ch or parent.ch == PERMANENT and run.config ~= '' then -- restorations do not know the schemas
    items.set(parent, 'ch', NONE)
  end
  place(run, parent)
end

-- Places the parents whose last open children have ended or gone.
function children.settle(run)
  if not run[children] then return end
  local changed = run[children].changed
  run[children].changed = {}
  for id in pairs(changed) do
    local parent = children.have_ended(run, id) and items.load(run, id)
    if parent then settle(run, parent) end
  end
end

return children
