-- @include transition
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

local function given(value)
  return value ~= '' and value
end

local parents = {}

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

-- Stores the item; returns it, or nil and the reason.
local function create(spec, run)
  local id, parent_id = spec[1], spec[2]
  local parent = parent_id ~= '' and parent_at(parent_id)
  if parent_id ~= '' and not parent then return nil, 'parent_' .. absent(parent_id) end
  local depth = parent and parent[1] + 1 or 0
  if depth > MAX_DEPTH then return nil, 'too_deep' end
  if redis.call('EXISTS', K_ITEM .. id) == 1 then return nil, 'id_taken' end
  if not begun then begin() end
  local it = {id = id, fresh = true}
  loaded[id] = it
  put(it, 'lv', spec[16] and spec[16] > 0 and spec[16])
  put(it, 'nb', spec[17] and spec[17] > 0 and spec[17])
  local complexity = spec[7] > 0 and spec[7] or NO_COMPLEXITY
  enter(it, resting(it, spec[5]))
  put(it, 'w', score_of(it.class, spec[6], complexity, run.now))
  put(it, 'd', depth)
  put(it, 'pa', parent_id ~= '' and parent_id)
  put(it, 'g', given(spec[8]))
  put(it, 'y', given(spec[9]))
  put(it, 'lb', given(spec[10]))
  put(it, 'rv', spec[11] and 1)
  put(it, 'q', given(spec[15]))
  put_text(it, 't', spec[3])
  put_text(it, 's', spec[4])
  local long = {'x', spec[12], 'm', spec[13], 'o', spec[14]}
  for n = 1, 6, 2 do
    if long[n + 1] ~= '' then redis.call('HSET', K_TEXT .. id, long[n], long[n + 1]) end
  end
  save(it)
  it.fresh = nil
  rank(it)
  redis.call('ZADD', K_PREFIXES .. string.sub(id, 1, 4), 0, string.sub(id, 5))
  emit(run.cap, 'create', id, 'r', it.role, 'p', parent_id)
  if parent and parent[2] == TERMINAL then child_added(load(parent_id), run) end
  return it
end
