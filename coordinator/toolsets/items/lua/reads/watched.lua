-- What waiting reads wait for (feed/waits.py): whether it holds of an item, and if not, which items have to change
-- before it can. That is the item itself and a witness: one open item below it, or one of its blockers. So a wait for a
-- tree of any size watches one of its open items, and nothing is read while others change.
-- A condition is a function of (run, item, rest, hint): `rest` = what follows a colon in its name, `hint` = the last
-- witness, '' for none. It returns whether it holds; the witness and the items above it; the root of the item, if items
-- that come into the tree matter.
-- owns: none
local claims = require 'claims'
local classes = require 'classes'
local graph = require 'graph'
local item_events = require 'item_events'
local items = require 'items'
local notes = require 'notes'

local BLOCKED, CLASS_SIZE = classes.BLOCKED, classes.CLASS_SIZE
local QUEUE, STATES, TERMINAL, WORK = classes.QUEUE, classes.STATES, classes.TERMINAL, classes.WORK

local watched = {}

local LOOKED_MAX = 5000 -- terminal items that one condition looks below
local KEYS_AT_ONCE = 500
-- Not part of a version: what changes without an event that would wake a call (by time, renewals, usage below), and
-- what is added in other words.
local LEFT_OUT = {
  ch = true, id = true, k = true, lo = true, lv = true, nb = true, nt = true, rh = true, rn = true, ub = true,
  us = true, w = true,
}
-- The roles of open items, from and below which score. Those come first that are likely to be open for longest.
local OPEN = {
  {BLOCKED * STATES, (BLOCKED + 1) * STATES}, {QUEUE * STATES, WORK * STATES}, {WORK * STATES, TERMINAL * STATES},
}

-- The open child of an item that is likely to be open for longest, or nil.
local function open_child(run, id)
  for _, range in ipairs(OPEN) do
    local low, high = range[1] * CLASS_SIZE, range[2] * CLASS_SIZE - 1
    local child = redis.call('ZRANGE', run.keys.ranked .. 'p' .. id, high, low, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
    if child then return child end
  end
end

-- The ids in a list that have children.
function watched.with_children(run, ids)
  local found = {}
  for first = 1, #ids, KEYS_AT_ONCE do
    local sets = {}
    for n = first, math.min(first + KEYS_AT_ONCE - 1, #ids) do
      sets[#sets + 1] = run.keys.ranked .. 'p' .. ids[n]
    end
    if redis.call('EXISTS', unpack(sets)) > 0 then
      for n, set in ipairs(sets) do
        if redis.call('EXISTS', set) == 1 then found[#found + 1] = ids[first + n - 1] end
      end
    end
  end
  return found
end

-- An open item below one that is at this depth; nil: none, false: there are too many to look at.
local function open_below(run, id, depth, looked)
  local child = open_child(run, id)
  if child or depth + 1 >= items.MAX_DEPTH then return child end
  -- All children are terminal, but may have open ones: an item can end before those below it.
  local left = LOOKED_MAX - looked.count
  local ids = redis.call('ZRANGE', run.keys.ranked .. 'p' .. id, 0, left)
  looked.count = looked.count + #ids
  if #ids > left then return false end
  for _, inner in ipairs(watched.with_children(run, ids)) do
    local found = open_below(run, inner, depth + 1, looked)
    if found ~= nil then return found end
  end
end

-- The item and those above it, up to the children of `top`; nil if it is not below that.
local function path_below(run, id, top)
  local path = {}
  while id and id ~= top do
    path[#path + 1] = id
    id = redis.call('HGET', run.keys.item .. id, 'pa')
  end
  return id and path or nil
end

-- The items that an item waits for or waited for.
local function blockers_of(run, item)
  local list = {}
  graph.each_edge(run, item.id, function(code, other)
    if graph.blocked_by_other(code) then list[#list + 1] = other end
  end)
  return list
end

local conditions = {}

-- Tells by its version; that has the roles of the blockers, which have events of their own.
function conditions.changed(run, item)
  return false, blockers_of(run, item)
end

function conditions.terminal(_, item)
  return item.role == TERMINAL
end

function conditions.note(run, item, key)
  local entry = redis.call('HGET', run.keys.notes .. item.id, key)
  return entry and notes.is_filled(entry) or false
end

function conditions.unblocked(run, item)
  if item.role == BLOCKED then return false end
  local blocker = item.nb and item.role < TERMINAL and graph.unsatisfied_blockers(run, item, 1)[1]
  if not blocker then return true end
  return false, {blocker[1]}
end

-- No item below it is open; of an item without any, that it is not.
function conditions.tree_terminal(run, item, _, hint)
  local known = hint ~= '' and items.load(run, hint)
  local path = known and known.role ~= TERMINAL and path_below(run, hint, item.id)
  if path and path[1] then return false, path end
  if redis.call('EXISTS', run.keys.ranked .. 'p' .. item.id) == 0 then
    return item.role == TERMINAL, {}, item_events.root_of(run, item) or item.id
  end
  local found = open_below(run, item.id, item.depth, {count = 0})
  if found then return false, path_below(run, found, item.id) end
  return found == nil or 'unknown', {}, item_events.root_of(run, item) or item.id
end

-- Differs for any two states of what `changed` counts.
local function version_of(run, item)
  local parts = {'w' .. item.role .. item.score % CLASS_SIZE, 'm' .. (item.modified_at or '')}
  if item.fence then
    parts[3] = 'h' .. item.fence .. (item.role < TERMINAL and claims.is_live(run, item) and 'l' or '')
  end
  for field, value in pairs(item) do
    if #field < 3 and not LEFT_OUT[field] then parts[#parts + 1] = field .. value end
  end
  local flat = redis.call('HGETALL', run.keys.notes .. item.id)
  for n = 1, #flat, 2 do
    local note = flat[n + 1]
    parts[#parts + 1] = flat[n] .. note .. (redis.call('HGET', run.keys.note .. string.sub(note, 1, 32), 'm') or '')
  end
  for _, edge in ipairs(redis.call('HKEYS', run.keys.edges .. item.id)) do parts[#parts + 1] = 'e' .. edge end
  for _, blocker in ipairs(blockers_of(run, item)) do
    parts[#parts + 1] = 'b' .. blocker .. items.load_role(run, blocker)
  end
  table.sort(parts)
  return string.sub(redis.sha1hex(table.concat(parts, '\0')), 1, 16)
end

-- {version, 1 if the condition holds, 0 if not, 2 if there are too many items to tell, names to watch, root or ''}, or
-- false: there is no such item.
function watched.reading(run, id, condition, hint)
  local item = items.load(run, id)
  if not item then return false end
  local name, rest = string.match(condition, '^([%l_]+):?(.*)$')
  local holds, names, root = conditions[name](run, item, rest, hint)
  names = names or {}
  names[#names + 1] = id
  return {version_of(run, item), holds == 'unknown' and 2 or holds and 1 or 0, names, root or ''}
end

return watched
