-- @include transition
-- @include together
-- New items. A spec is {id, parent or '', title, summary, role, priority, complexity or 0, tags, type,
-- status label, requires verification, description, metadata, properties, traits, graph level, unsatisfied
-- blockers}; '' means not given. The last two are known where a whole tree is created with its edges.

-- A parent whose lifecycle is auto-reopen returns to work when a child is added (seed 004).
local function child_added(parent, run)
  if parent.role ~= TERMINAL then return end
  local schema = schema_of(parent, run.config)
  if not schema or schema.lifecycle ~= AUTO_REOPEN then return end
  local by = {id = '', actor = '', verification = '', summary = 'reopened by a new child item'}
  change_role(parent, WORK, 'cascade', label_of(run, 'start'), run, by)
end

local parents, made = {}, {}

-- {depth, role} of a parent as this run first saw it, nil when there is none: all that a new child asks of it.
local function parent_at(id)
  if not parents[id] then
    local depth, score = unpack(redis.call('HMGET', K_ITEM .. id, 'd', 'w'))
    parents[id] = score and {tonumber(depth), role_of(score)} or nil
  end
  return parents[id]
end

-- A project that begins here has all that is ready in `beneath`.
local begun = false
local function begin()
  begun = true
  if redis.call('EXISTS', K_RANKED .. '*') == 0 then redis.call('SET', K_FORM, ALL) end
end

-- Whether none of the items is there yet.
local function all_new(specs)
  local items = {}
  for n, spec in ipairs(specs) do items[n] = K_ITEM .. spec[1] end
  return redis.call('EXISTS', unpack(items)) == 0
end

-- The item of a spec, stored but not ranked.
local function store_item(spec, depth, now)
  local id, parent_id, title_given, summary, role, priority, complexity, tags, type_given, label, verify = unpack(spec)
  local description, metadata, properties, traits, level, waits = unpack(spec, 12, 17)
  local it, fields, texts = {id = id}, {}, {}
  local function field(name, value)
    it[name] = value
    fields[#fields + 1], fields[#fields + 2] = name, value
  end
  local function text(name, value, always_long)
    if value == '' then return end
    if not always_long and #value <= INLINE_BYTES then return field(name, value) end
    texts[#texts + 1], texts[#texts + 2] = name, value
  end
  if level and level > 0 then field('lv', level) end
  if waits and waits > 0 then field('nb', waits) end
  enter(it, resting(it, role))
  field('w', score_of(it.class, priority, complexity > 0 and complexity or NO_COMPLEXITY, now))
  field('d', depth)
  if parent_id ~= '' then field('pa', parent_id) end
  if tags ~= '' then field('g', tags) end
  if type_given ~= '' then field('y', type_given) end
  if label ~= '' then field('lb', label) end
  if verify then field('rv', 1) end
  if traits ~= '' then field('q', traits) end
  text('t', title_given)
  text('s', summary)
  text('x', description, true)
  text('m', metadata, true)
  text('o', properties, true)
  redis.call('HSET', K_ITEM .. id, unpack(fields))
  if texts[1] then redis.call('HSET', K_TEXT .. id, unpack(texts)) end
  return it
end

-- Stores an item, to be ranked with the others by `rank_made`; returns it, or nil and the reason.
local function create(spec, run)
  local id, parent_id = spec[1], spec[2]
  local parent = parent_id ~= '' and parent_at(parent_id)
  if parent_id ~= '' and not parent then return nil, 'parent_' .. absent(parent_id) end
  local depth = parent and parent[1] + 1 or 0
  if depth > MAX_DEPTH then return nil, 'too_deep' end
  if loaded[id] or (not run.all_new and redis.call('EXISTS', K_ITEM .. id) == 1) then return nil, 'id_taken' end
  if not begun then begin() end
  local it = store_item(spec, depth, run.now)
  loaded[id], made[#made + 1] = it, it
  redis.call('ZADD', K_PREFIXES .. string.sub(id, 1, 4), 0, string.sub(id, 5))
  emit(run.cap, 'create', id, 'r', it.role, 'p', parent_id)
  if parent and parent[2] == TERMINAL then child_added(load(parent_id), run) end
  return it
end

local function rank_made()
  rank_all(made)
end
