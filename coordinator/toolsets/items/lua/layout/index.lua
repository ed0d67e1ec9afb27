-- Writes and reads the ranked index (classes.lua): per scope, ids by their scores. Functions that index an item use its
-- current score; they store it on the item only if documented. In a call: how many entries in scopes of tags it has
-- written one by one.
-- owns: ranked
local abandoned = require 'abandoned'
local apart = require 'apart'
local available = require 'available'
local batch = require 'batch'
local bounds = require 'bounds'
local classes = require 'classes'
local clock = require 'clock'
local items = require 'items'
local tags_of = require 'tags_of'

local CLASS_SIZE, HELD, STATES = classes.CLASS_SIZE, classes.HELD, classes.STATES

local index = {}

local CAN_BE_LEFT = {[classes.WORK] = true, [classes.REVIEW] = true}

-- The scopes that together hold every item once.
index.EVERYTHING = {'c', 'p'}

-- All scopes that an item belongs to.
function index.scopes_of(item)
  local list = {'p' .. (item.pa or '')}
  if item.pa then list[2] = 'c' end
  if item.g then
    for _, tag in ipairs(tags_of(item.g)) do list[#list + 1] = 'g' .. tag end
  end
  if item.y then list[#list + 1] = 'y' .. item.y end
  return list
end

-- Adds an item, and optionally another one, to a scope, with their scores.
local function add_to_scope(run, scope, item, score, other, other_score)
  local key = run.keys.ranked .. scope
  if not other then return redis.call('ZADD', key, score, item.id) end
  redis.call('ZADD', key, score, item.id, other_score, other.id)
end

-- Adds an item, and optionally another one with the same parent, to their scopes of these.
local function index_parent(run, item, score, other, other_score)
  if item.pa then add_to_scope(run, 'c', item, score, other, other_score) end
  add_to_scope(run, 'p' .. (item.pa or ''), item, score, other, other_score)
end

-- The same with the same tags and type.
local function index_tags_and_type(run, item, score, other, other_score)
  if item.g then
    for _, tag in ipairs(tags_of(item.g)) do
      add_to_scope(run, 'g' .. tag, item, score, other, other_score)
      run[index] = (run[index] or 0) + 1
    end
  end
  if item.y then add_to_scope(run, 'y' .. item.y, item, score, other, other_score) end
end

-- How many entries in scopes of tags this call has written one by one.
function index.tag_entries_written(run)
  return run[index] or 0
end

-- Adds a ready item to the index of ready items below its ancestors (bounds.lua), unless it is apart.
local function lower_bounds(run, item)
  local is_apart = (item.rq or item.as) and classes.READY_CLASSES[item.class]
  if not is_apart and classes.OFFERED[item.class] then bounds.lower(run, item.pa, item.depth - 1, item.score) end
end

-- Brings the entry of an item in a scope up to date (no score: it is not there any more).
local function set_entry(run, scope, id, score)
  if not score then return redis.call('ZREM', run.keys.ranked .. scope, id) end
  redis.call('ZADD', run.keys.ranked .. scope, score, id)
end

-- Adds an item to what there is beside the shared scopes. In the scopes of its set it is in a ready class.
local function index_elsewhere(run, item)
  if item.rq or item.as then
    local ready = classes.READY_CLASSES[item.class]
    for scope, score in pairs((ready or item.was_ready) and apart.entries_of(item) or {}) do
      set_entry(run, scope, item.id, ready and score)
    end
    apart.place(run, item)
  end
  if item.pa then lower_bounds(run, item) end
end

-- Adds or moves an item in its scopes.
function index.add(run, item)
  local score = (item.rq or item.as) and classes.shared_score(item) or item.score
  index_parent(run, item, score)
  if item.g or item.y then index_tags_and_type(run, item, score) end
  if item.rq or item.as or item.pa then index_elsewhere(run, item) end
end

-- The same for two items, each may be nil, with fewer commands.
function index.add_two(run, item, other)
  if not (item and other) then return (item or other) and index.add(run, item or other) end
  local one_parent, alike = item.pa == other.pa, item.g == other.g and item.y == other.y
  local score, other_score = classes.shared_score(item), classes.shared_score(other)
  if one_parent then
    index_parent(run, item, score, other, other_score)
  else
    index_parent(run, item, score)
    index_parent(run, other, other_score)
  end
  if alike then
    index_tags_and_type(run, item, score, other, other_score)
  else
    index_tags_and_type(run, item, score)
    index_tags_and_type(run, other, other_score)
  end
  index_elsewhere(run, item)
  index_elsewhere(run, other)
end

-- The scores of an item by scope, for `index.reindex`.
function index.entries_of(item)
  local entries, shared = {}, classes.shared_score(item)
  for _, scope in ipairs(index.scopes_of(item)) do entries[scope] = shared end
  if not classes.READY_CLASSES[item.class] then return entries end
  for scope, score in pairs(apart.entries_of(item)) do entries[scope] = score end
  return entries
end

-- Adds an item to its current scopes, and removes it from former ones; `before` = its entries there.
function index.reindex(run, item, before)
  local entries = index.entries_of(item)
  for scope, score in pairs(entries) do
    if before[scope] ~= score then set_entry(run, scope, item.id, score) end
  end
  for scope in pairs(before) do
    if not entries[scope] then set_entry(run, scope, item.id) end
  end
  if item.pa then lower_bounds(run, item) end
end

-- Sets the class of an item; in an offered class, the item will be handed out (serve.lua).
function index.set_class(run, item, class)
  item.class, item.role = class, math.floor(class / STATES)
  if classes.OFFERED[class] then available.note(run, 'ready', item.id) end
end

-- Sets class and score of an item, to be stored and indexed by the caller; false if it has that class already.
function index.change_class(run, item, class)
  if item.class == class then return false end
  local before, role = item.class, item.role
  item.score = item.score + (class - before) * CLASS_SIZE
  index.set_class(run, item, class)
  if item.rq or item.rs or item.du or item.as or item.to then apart.moved(run, item, before) end
  -- Only what nobody holds is abandoned.
  local was, is = before % STATES ~= HELD and CAN_BE_LEFT[role], class % STATES ~= HELD and CAN_BE_LEFT[item.role]
  if was or is then abandoned.note(run, item) end
  return true
end

-- The same with the index; `items.save` must follow.
function index.move_to_class(run, item, class)
  if index.change_class(run, item, class) then
    index.add(run, item)
    items.mark_changed(item, 'score')
  end
end

-- Appends an index entry to those of its scope, scores and ids in turn.
local function add_entry(entries, scope, score, id)
  local list = batch.list_in(entries, scope)
  list[#list + 1], list[#list + 2] = score, id
end

-- Adds items to their scopes; with `without_tags` not to those of their tags and types.
function index.add_many(run, list, without_tags)
  local entries = {}
  for _, item in ipairs(list) do
    local score, id = clock.whole(classes.shared_score(item)), item.id
    add_entry(entries, 'p' .. (item.pa or ''), score, id)
    if item.pa then add_entry(entries, 'c', score, id) end
    if item.g and not without_tags then
      for _, tag in ipairs(tags_of(item.g)) do add_entry(entries, 'g' .. tag, score, id) end
    end
    if item.y and not without_tags then add_entry(entries, 'y' .. item.y, score, id) end
    index_elsewhere(run, item)
  end
  for scope, values in pairs(entries) do batch.call('ZADD', run.keys.ranked .. scope, values) end
end

-- The same with all scopes, for any number of items.
function index.add_all(run, list)
  if list[2] then index.add_many(run, list) elseif list[1] then index.add(run, list[1]) end
end

-- Removes items from a scope.
function index.remove(run, scope, ids)
  batch.call('ZREM', run.keys.ranked .. scope, ids)
end

return index
