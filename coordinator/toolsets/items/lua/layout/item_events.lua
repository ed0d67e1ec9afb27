-- Events of items. That of an item with a parent names, as R, the item at the top of its tree: listeners filter by it.
-- An item without a parent is its own root and says nothing. The root of a child of the root is its parent; of one that
-- is deeper, each level costs a read of a field. It is not stored: moving a subtree would then write all of its items.
-- In a call: by id of a parent, the item at the top of its tree.
--   transitions  entries with the packed row {id, from, to, trigger, label before, label, summary, actor, verification,
--                the entry of the item's transition before}
-- owns: transitions
local events = require 'events'

local item_events = {}

-- The item at the top of the tree that an item is in; nil: the item itself.
function item_events.root_of(run, item)
  local id = item.pa
  if not id or item.depth == 1 then return id end
  local roots = run[item_events] or {}
  run[item_events] = roots
  local root = roots[id]
  if root then return root end
  root = id
  while true do
    local above = run.loaded[root]
    local parent = above and above.pa
    if not above then parent = redis.call('HGET', run.keys.item .. root, 'pa') end
    if not parent then break end
    root = parent
  end
  roots[id] = root
  return root
end

-- Forgets which items are at the top, as one has moved.
function item_events.forget_roots(run)
  run[item_events] = nil
end

-- Appends an event of this kind about a loaded item; further fields and values in pairs.
function item_events.emit(run, kind, item, ...)
  local root = item.pa and item_events.root_of(run, item)
  if root then return events.emit(run, kind, item.id, 'R', root, ...) end
  return events.emit(run, kind, item.id, ...)
end

-- The same about an item of which only the id may be known.
function item_events.emit_of(run, kind, id, ...)
  local item = run.loaded[id] or {id = id, pa = redis.call('HGET', run.keys.item .. id, 'pa') or nil}
  return item_events.emit(run, kind, item, ...)
end

-- Appends a packed row to the transitions; returns its entry.
function item_events.append_transition(run, row)
  if not events.trims(run) then return redis.call('XADD', run.keys.transitions, '*', 'r', row) end
  return redis.call('XADD', run.keys.transitions, 'MAXLEN', '~', run.events_max, '*', 'r', row)
end

-- The same under the entry that it had in another store; false if later ones are there.
function item_events.restore_transition(run, entry, row)
  local reply
  if events.trims(run) then
    reply = redis.pcall('XADD', run.keys.transitions, 'MAXLEN', '~', run.events_max, entry, 'r', row)
  else
    reply = redis.pcall('XADD', run.keys.transitions, entry, 'r', row)
  end
  return not (type(reply) == 'table' and reply.err)
end

return item_events
