-- @include transition
-- @include together
-- @include debts
-- New items. A spec is {id, parent or '', title, summary, role, priority, complexity or 0, tags, type,
-- status label, requires verification, description, metadata, properties, traits, graph level, unsatisfied
-- blockers}; '' means not given. The last two are known where a whole tree is created with its edges.

-- A parent whose lifecycle is auto-reopen returns to work when a child is added (seed 004), and takes along those
-- above it that are in queue, as any item does that comes to work.
local function reopen_parent(parent, run)
  if parent.role ~= TERMINAL then return end
  local schema = schema_of(parent, run.config)
  if not schema or schema.lifecycle ~= AUTO_REOPEN then return end
  local author = {id = '', actor = '', verification = '', summary = 'reopened by a new child item'}
  change_role(parent, WORK, 'cascade', configured_label(run, 'start'), run, author)
  cascade_upwards(parent, 'cascade', run, {}, {})
end

local known_parents, new_items = {}, {}

-- {depth, role} of a parent as this run first saw it, nil when there is none: all that a new child asks of it.
local function load_parent(id)
  if not known_parents[id] then
    local depth, score = unpack(redis.call('HMGET', K_ITEM .. id, 'd', 'w'))
    known_parents[id] = score and {tonumber(depth), role_of(score)} or nil
  end
  return known_parents[id]
end

-- A project that begins here has all that is ready in `beneath`.
local project_begun = false
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

local LETTERS_OF = {[8] = 'g', [9] = 'y', [10] = 'lb', [15] = 'q'} -- texts of a spec that are stored as they are
local LONG_OF = {[12] = 'x', [13] = 'm', [14] = 'o'} -- and beside the item
local SHORT_OF = {[3] = 't', [4] = 's'} -- and where their length puts them

-- The item of a spec, stored but not ranked.
local function store_item(spec, depth, now)
  local id, complexity, level, waits = spec[1], spec[7], spec[16] or 0, spec[17] or 0
  local item = {id = id, d = depth, pa = spec[2] ~= '' and spec[2] or nil, nb = waits > 0 and waits or nil}
  set_class(item, unclaimed_class(item, spec[5]))
  item.score = score_of(item.class, spec[6], complexity > 0 and complexity or NO_COMPLEXITY, now)
  local fields, size, texts = {'w', item.score, 'd', depth}, 4, {}
  local function field(name, value)
    item[name], fields[size + 1], fields[size + 2], size = value, name, value, size + 2
  end
  if item.pa then field('pa', item.pa) end
  if level > 0 then field('lv', level) end
  if waits > 0 then field('nb', waits) end
  if spec[11] then field('rv', 1) end
  for n, name in pairs(LETTERS_OF) do
    if spec[n] ~= '' then field(name, spec[n]) end
  end
  for n, name in pairs(SHORT_OF) do
    if #spec[n] > INLINE_BYTES then
      texts[#texts + 1], texts[#texts + 2] = name, spec[n]
    elseif spec[n] ~= '' then
      field(name, spec[n])
    end
  end
  for n, name in pairs(LONG_OF) do
    if spec[n] ~= '' then texts[#texts + 1], texts[#texts + 2] = name, spec[n] end
  end
  redis.call('HSET', K_ITEM .. id, unpack(fields))
  if texts[1] then redis.call('HSET', K_TEXT .. id, unpack(texts)) end
  return item
end

-- Stores an item, to be ranked with the others by `index_new_items`; returns it, or nil and the reason.
local function create_item(spec, run)
  local id, parent_id = spec[1], spec[2]
  local parent = parent_id ~= '' and load_parent(parent_id)
  if parent_id ~= '' and not parent then return nil, 'parent_' .. absence_reason(parent_id) end
  local depth = parent and parent[1] + 1 or 0
  if depth > MAX_DEPTH then return nil, 'too_deep' end
  if loaded[id] or (not run.all_new and redis.call('EXISTS', K_ITEM .. id) == 1) then return nil, 'id_taken' end
  if not project_begun then begin_project() end
  local item = store_item(spec, depth, run.now)
  loaded[id], new_items[#new_items + 1] = item, item
  redis.call('ZADD', K_PREFIXES .. string.sub(id, 1, 4), 0, string.sub(id, 5))
  emit(run.events_max, 'create', id, 'r', item.role, 'p', parent_id)
  if parent and parent[2] == TERMINAL then reopen_parent(load_item(parent_id), run) end
  return item
end

local TAG_ENTRIES_MAX = 500 -- places by tag and type that one run gives new items

local function index_new_items(events_max)
  local marks, marked = 0, {}
  for _, item in ipairs(new_items) do
    if item.g or item.y then
      marks = marks + select(2, string.gsub(item.g or '', ',', ',')) + 2
      marked[item.id] = 0
    end
  end
  if marks <= TAG_ENTRIES_MAX then return index_items(new_items) end
  index_many(new_items, true)
  owe_counts(marked, events_max)
end
