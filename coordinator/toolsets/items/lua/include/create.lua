-- @include transition
-- @include together
-- @include debts
-- New items. A spec is {id, parent or '', title, summary, role, priority, complexity or 0, tags, type,
-- status label, requires verification, description, metadata, properties, traits, graph level, unsatisfied
-- blockers}; '' means not given. The last two are known where a whole tree is created with its edges.

-- A parent whose lifecycle is auto-reopen returns to work when a child is added (seed 004), and takes along those
-- above it that are in queue, as any item does that comes to work.
local function child_added(parent, run)
  if parent.role ~= TERMINAL then return end
  local schema = schema_of(parent, run.config)
  if not schema or schema.lifecycle ~= AUTO_REOPEN then return end
  local by = {id = '', actor = '', verification = '', summary = 'reopened by a new child item'}
  change_role(parent, WORK, 'cascade', label_of(run, 'start'), run, by)
  cascade(parent, 'cascade', run, {}, {})
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

local LETTERS_OF = {[8] = 'g', [9] = 'y', [10] = 'lb', [15] = 'q'} -- texts of a spec that are stored as they are
local LONG_OF = {[12] = 'x', [13] = 'm', [14] = 'o'} -- and beside the item
local SHORT_OF = {[3] = 't', [4] = 's'} -- and where their length puts them

-- The item of a spec, stored but not ranked.
local function store_item(spec, depth, now)
  local id, complexity, level, waits = spec[1], spec[7], spec[16] or 0, spec[17] or 0
  local it = {id = id, d = depth, pa = spec[2] ~= '' and spec[2] or nil, nb = waits > 0 and waits or nil}
  enter(it, resting(it, spec[5]))
  it.w = score_of(it.class, spec[6], complexity > 0 and complexity or NO_COMPLEXITY, now)
  local fields, size, texts = {'w', it.w, 'd', depth}, 4, {}
  local function field(name, value)
    it[name], fields[size + 1], fields[size + 2], size = value, name, value, size + 2
  end
  if it.pa then field('pa', it.pa) end
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

local MARKS = 500 -- places by tag and type that one run gives new items

local function rank_made(cap)
  local marks, marked = 0, {}
  for _, it in ipairs(made) do
    if it.g or it.y then
      marks = marks + select(2, string.gsub(it.g or '', ',', ',')) + 2
      marked[it.id] = 0
    end
  end
  if marks <= MARKS then return rank_all(made) end
  rank_many(made, true)
  owe(marked, cap)
end
