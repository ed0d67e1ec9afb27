-- @include transition
-- @include batch
-- @include debts
-- New items. A spec is {1 id, 2 parent or '', 3 title, 4 summary, 5 role, 6 priority, 7 complexity or 0, 8 tags,
-- 9 type, 10 status label, 11 requires verification, 12 description, 13 metadata, 14 properties, 15 traits, 16 graph
-- level, 17 unsatisfied blockers}; '' means not given. The last two are known where a whole tree is created with its
-- edges. `run` as in include/transition.lua, with all_new (that none of the items is there yet) and created (ms).

-- A parent whose lifecycle is auto-reopen returns to work when a child is added (seed 004). Its ancestors in role queue
-- follow, as for any item that goes to work.
local function reopen_parent(parent, run)
  if parent.role ~= TERMINAL then return end
  local schema = schema_of(parent, run.config)
  if not schema or schema.lifecycle ~= AUTO_REOPEN then return end
  local author = {id = '', actor = '', verification = '', summary = 'reopened by a new child item'}
  change_role(parent, WORK, 'cascade', configured_label(run, 'start'), run, author)
  cascade_upwards(parent, 'cascade', run, {}, {})
end

local known_parents, new_items = {}, {} -- by id; in order of creation

-- {depth, role} of a parent as this run first saw it, nil when there is none: all that a new child needs of it.
local function load_parent(id)
  if not known_parents[id] then
    local depth, score = unpack(redis.call('HMGET', K_ITEM .. id, 'd', 'w'))
    known_parents[id] = score and {tonumber(depth), role_of(score)} or nil
  end
  return known_parents[id]
end

local project_begun = false -- whether begin_project has run

-- In a project without items, notes that the bounds (include/beneath.lua) are complete.
local function begin_project()
  project_begun = true
  if redis.call('EXISTS', K_RANKED .. '*') == 0 then redis.call('SET', K_FORM, COMPLETE) end
end

-- Whether none of the items is there yet.
local function all_new(specs)
  local items = {}
  for n, spec in ipairs(specs) do items[n] = K_ITEM .. spec[1] end
  return redis.call('EXISTS', unpack(items)) == 0
end

-- Fields of texts by their place in a spec: those in the item, beside it, and where their length puts them.
local TEXTS_IN_ITEM = {[8] = 'g', [9] = 'y', [10] = 'lb', [15] = 'q'}
local TEXTS_BESIDE = {[12] = 'x', [13] = 'm', [14] = 'o'}
local TEXTS_BY_LENGTH = {[3] = 't', [4] = 's'}

-- The item of a spec, stored but not indexed.
local function store_item(spec, depth, created)
  local id, complexity, level, blockers = spec[1], spec[7], spec[16] or 0, spec[17] or 0
  local item = {id = id, d = depth, pa = spec[2] ~= '' and spec[2] or nil, nb = blockers > 0 and blockers or nil}
  set_class(item, unclaimed_class(item, spec[5]))
  item.score = score_of(item.class, spec[6], complexity > 0 and complexity or NO_COMPLEXITY, created)
  local fields, size, texts = {'w', item.score, 'd', depth}, 4, {}
  local function add_field(name, value)
    item[name], fields[size + 1], fields[size + 2], size = value, name, value, size + 2
  end
  if item.pa then add_field('pa', item.pa) end
  if level > 0 then add_field('lv', level) end
  if blockers > 0 then add_field('nb', blockers) end
  if spec[11] then add_field('rv', 1) end
  for n, name in pairs(TEXTS_IN_ITEM) do
    if spec[n] ~= '' then add_field(name, spec[n]) end
  end
  for n, name in pairs(TEXTS_BY_LENGTH) do
    if #spec[n] > INLINE_BYTES then
      texts[#texts + 1], texts[#texts + 2] = name, spec[n]
    elseif spec[n] ~= '' then
      add_field(name, spec[n])
    end
  end
  for n, name in pairs(TEXTS_BESIDE) do
    if spec[n] ~= '' then texts[#texts + 1], texts[#texts + 2] = name, spec[n] end
  end
  redis.call('HSET', K_ITEM .. id, unpack(fields))
  if texts[1] then redis.call('HSET', K_TEXT .. id, unpack(texts)) end
  return item
end

-- Stores an item, to be indexed with the others by `index_new_items`; returns it, or nil and the reason.
local function create_item(spec, run)
  local id, parent_id = spec[1], spec[2]
  if string.sub(id, 1, 1) == '?' then return nil, absence_reason(id) end -- the caller refuses it already
  local parent = parent_id ~= '' and load_parent(parent_id)
  if parent_id ~= '' and not parent then return nil, 'parent_' .. absence_reason(parent_id) end
  local depth = parent and parent[1] + 1 or 0
  if depth > MAX_DEPTH then return nil, 'too_deep' end
  if loaded[id] or (not run.all_new and redis.call('EXISTS', K_ITEM .. id) == 1) then return nil, 'id_taken' end
  if not project_begun then begin_project() end
  local item = store_item(spec, depth, run.created)
  loaded[id], new_items[#new_items + 1] = item, item
  redis.call('ZADD', K_PREFIXES .. string.sub(id, 1, 4), 0, string.sub(id, 5))
  emit(run.events_max, 'create', id, 'r', item.role, 'p', parent_id)
  if parent and parent[2] == TERMINAL then reopen_parent(load_item(parent_id), run) end
  return item
end

local TAG_ENTRIES_MAX = 500 -- of tags and types that one run writes for new items; where there are more all are owed

-- Puts the items that were created into their scopes.
local function index_new_items(events_max)
  local tag_entries, tagged = 0, {}
  for _, item in ipairs(new_items) do
    if item.g or item.y then
      tag_entries = tag_entries + select(2, string.gsub(item.g or '', ',', ',')) + 2
      tagged[item.id] = 0
    end
  end
  if tag_entries <= TAG_ENTRIES_MAX then return index_items(new_items) end
  index_many(new_items, true)
  owe_counts(tagged, events_max)
end
