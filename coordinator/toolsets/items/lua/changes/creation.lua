-- New items. A spec is {id, parent or '', role, fields, graph level, unsatisfied blockers}; fields by letter as in
-- items.lua, p priority, c complexity; rs = '' for no demands; of times as for `due_times.enter`. Level and
-- blockers are known where a whole tree is created with its edges. `creation.begin` comes first, `creation.index_new`
-- last. In a call: items, the new ones in order; all_new, whether none of them existed; parents, by id, as first read.
-- owns: none
local apart = require 'apart'
local children = require 'children'
local classes = require 'classes'
local debts = require 'debts'
local demands = require 'demands'
local due_times = require 'due_times'
local index = require 'index'
local item_events = require 'item_events'
local item_record = require 'item_record'
local items = require 'items'
local obstacles = require 'obstacles'
local requirements = require 'requirements'
local schemas = require 'schemas'
local transitions = require 'transitions'

local NO_COMPLEXITY, TERMINAL, WORK = classes.NO_COMPLEXITY, classes.TERMINAL, classes.WORK
local MAX_DEPTH = items.MAX_DEPTH
local AUTO_REOPEN = schemas.AUTO_REOPEN

local creation = {}

local TAG_ENTRIES_MAX = 500 -- index entries of tags and types that one call writes for new items; more become a debt

-- A parent whose lifecycle is auto-reopen returns to work when a child is added. Its ancestors in role queue
-- follow, as for any item that goes to work.
function creation.reopen_parent(run, parent)
  if parent.role ~= TERMINAL then return end
  local schema = schemas.of(run, parent)
  if not schema or schema.lifecycle ~= AUTO_REOPEN then return end
  obstacles.hold(run, parent)
  local author = {id = '', actor = '', verification = '', summary = 'reopened by a new child item'}
  transitions.change_role(run, parent, WORK, 'cascade', transitions.labels_of(run.labels).start, author)
  transitions.cascade_upwards(run, parent, 'cascade', {}, {})
end

-- {depth, role, `ch`} of a parent as first read by this call, nil if there is none: all that a new child needs.
local function load_parent(run, id)
  local parents = run[creation].parents
  if not parents[id] then
    local depth, record, below = unpack(redis.call('HMGET', run.keys.item .. id, 'd', 'w', 'ch'))
    local parent = record and {tonumber(depth or 0), classes.role_of(item_record.score(record)), below} or nil
    parents[id] = parent
  end
  return parents[id]
end

-- Prepares the creation of items. One command checks whether all of them are new.
function creation.begin(run, specs)
  local item_keys = {}
  for n, spec in ipairs(specs) do item_keys[n] = run.keys.item .. spec[1] end
  local all_new = redis.call('EXISTS', unpack(item_keys)) == 0
  run[creation] = {all_new = all_new, items = {}, parents = {}}
end

-- The item of a spec, stored but not indexed.
local function store_item(run, spec, depth, created)
  local id, parent_id, role, given, level, blockers = unpack(spec)
  local item = {id = id, depth = depth, pa = parent_id ~= '' and parent_id or nil, lb = given.lb}
  item.nb = blockers and blockers > 0 and blockers or nil
  item.st = given.st -- its class depends on it
  local timed = due_times.are_given(given)
  if timed then due_times.enter(run, item, role, given) end
  index.set_class(run, item, classes.unclaimed_class(item, role))
  item.score = classes.score_of(item.class, given.p, given.c or NO_COMPLEXITY, created)
  local fields, size, texts = {'w', item_record.pack(item)}, 2, {}
  local function add_field(name, value)
    item[name], fields[size + 1], fields[size + 2], size = value, name, value, size + 2
  end
  if depth > 0 then add_field('d', depth) end
  if item.pa then add_field('pa', item.pa) end
  if level and level > 0 then add_field('lv', level) end
  if item.nb then add_field('nb', blockers) end
  for name, value in pairs(given) do
    if items.is_beside(name, value) then
      texts[#texts + 1], texts[#texts + 2] = name, value
    elseif items.is_plain(name) then
      add_field(name, value)
    end
  end
  local demanded = demands.of(run, item, given.rs)
  if given.rs then add_field('ro', 1) end
  if demanded then add_field('rs', demanded) end
  items.create(run, id, fields, texts)
  if demanded and item.role ~= TERMINAL then demands.count(run, demanded, 1) end
  apart.moved(run, item, -1)
  if timed then items.save(run, item) end
  return item
end

-- Stores an item with a creation time (ms), to be indexed later by `creation.index_new`; returns it, or nil and the
-- reason.
function creation.create(run, spec, created)
  local own, id, parent_id = run[creation], spec[1], spec[2]
  if string.sub(id, 1, 1) == '?' then return nil, items.absence_reason(id) end -- rejected by the caller already
  local parent = parent_id ~= '' and load_parent(run, parent_id)
  if parent_id ~= '' and not parent then return nil, 'parent_' .. items.absence_reason(parent_id) end
  local depth = parent and parent[1] + 1 or 0
  if depth > MAX_DEPTH then return nil, 'too_deep' end
  local taken = run.loaded[id] or not own.all_new and redis.call('EXISTS', run.keys.item .. id) == 1
  if taken then return nil, 'id_taken' end
  local set = spec[4].rq
  if set and not requirements.count(run, set) then return nil, 'too_many_requirements' end
  local item = store_item(run, spec, depth, created)
  run.loaded[id], own.items[#own.items + 1], item.is_new = item, item, true
  item_events.emit(run, 'create', item, 'r', item.role, 'p', parent_id)
  if parent and item.role == TERMINAL then
    children.changed(run, parent_id)
  elseif parent and parent[3] ~= '1' then
    children.opened(run, parent_id)
    parent[3] = '1'
  end
  if parent and parent[2] == TERMINAL then creation.reopen_parent(run, items.load(run, parent_id)) end
  return item
end

-- Adds the created items to their scopes.
function creation.index_new(run)
  local new, tag_entries, tagged = run[creation].items, 0, {}
  for _, item in ipairs(new) do
    item.is_new = nil
    if item.g or item.y then
      tag_entries = tag_entries + select(2, string.gsub(item.g or '', ',', ',')) + 2
      tagged[item.id] = 0
    end
  end
  if tag_entries <= TAG_ENTRIES_MAX then return index.add_all(run, new) end
  index.add_many(run, new, true)
  debts.owe_counts(run, tagged)
end

return creation
