-- Views of items in replies: full, a row of a list, or the head for mentions.
local classes = require 'classes'
local held_back = require 'held_back'
local item_record = require 'item_record'
local sums = require 'sums'

local TERMINAL = classes.TERMINAL

local views = {}

local TRANSITIONS_SHOWN = 10

-- The title of an item, from its id and the title in its hash (false if too long for that).
local function title_of(run, id, stored)
  return stored or redis.call('HGET', run.keys.text .. id, 't')
end

-- Transitions of an item from one of its entries in transitions back (nil: from its last), newest first: at most `most`
-- as {from, to, trigger, at, summary, actor, verification}; their entries; and the entry before these, nil at the
-- beginning. Fewer than `most` although there is one before: that was trimmed.
function views.transitions(run, item, entry, most)
  local list, entries = {}, {}
  entry = entry or item.last_entry
  while entry and #list < most do
    local found = redis.call('XRANGE', run.keys.transitions, entry, entry)[1]
    if not found then break end
    local row = cmsgpack.unpack(found[2][2])
    local id, from, to, trigger, _, _, summary, actor, verification, earlier = unpack(row, 1, 10)
    if id ~= item.id then break end
    list[#list + 1] = {from, to, trigger, tonumber(string.match(entry, '%d+')), summary, actor, verification}
    entries[#list], entry = entry, earlier
  end
  return list, entries, entry
end

-- The attempts on an item, in the order of the reply struct (Record in store/attempts.py): {the most it may have, its
-- back-off in seconds, both false if it does not say; attempts that count, until when it is in back-off (ms, 0: it is
-- not), the last attempts}. `list` = the list of these as stored, or nil.
function views.attempts(item, list)
  local held_until = not held_back.not_before(item) and not held_back.is_template(item) and tonumber(item.nt)
  return {
    tonumber(item.am) or false, tonumber(item.rb) or false, tonumber(item.an) or 0, held_until or 0,
    list and cjson.decode(list) or {},
  }
end

-- What an item says about time, in the order of the reply struct (DueTimes in store/due_times.py); false for nothing.
function views.due_times(run, item)
  if not (item.nv or item.du or item.rc or item.oc) then return false end
  local due = item.role ~= TERMINAL and tonumber(string.match(item.du or '', '^%d+$'))
  local overdue = due and due <= run.now or false
  local after = item.rc and math.max(tonumber(item.rn), run.now) or 0
  return {tonumber(item.nv) or 0, item.du or '', overdue, item.rc or '', after, item.oc or ''}
end

-- What an item says of usage, in the order of the reply struct (Spending in rules/usage.py).
function views.spending(item)
  return {item.us and {sums.parts(item.us)} or false, item.ub and {sums.parts(item.ub)} or false, item.bu or false,
    item.bx and true or false}
end

-- Whether an agent has begun an item in its role and left it: nobody holds it.
local function is_left(run, item)
  return not (item.holder and item.expires > run.now) and classes.is_left(item, item.role)
end

-- The full view of an item, in the order of the reply struct (View in store/query.py).
-- `no_texts` = whether it is known to have no long texts.
function views.full(run, item, no_texts)
  local long, score, created = {}, item.score, classes.created_of(item.score)
  local flat = no_texts and {} or redis.call('HGETALL', run.keys.text .. item.id)
  for n = 1, #flat, 2 do long[flat[n]] = flat[n + 1] end
  return {
    item.id, item.pa or false, item.t or long.t, long.x or false, item.s or long.s or '', item.role, item.lb or false,
    tonumber(item.pr) or false, classes.priority_of(score), classes.complexity_of(score), item.depth,
    long.m or false, item.g or false, item.y or false, long.o or false, item.q or false, created,
    item.modified_at or created, item.role_changed_at or created, item.rv ~= nil,
    (views.transitions(run, item, nil, TRANSITIONS_SHOWN)), views.attempts(item, long.a), item.rq or false,
    item.rs or false,
    views.due_times(run, item),
    views.spending(item), item.st ~= nil, is_left(run, item),
  }
end

-- The row of an item in search and overview, in the order of the reply struct (ShortView in store/query.py): {id,
-- parent, title, role, label, priority, depth, tags, type, traits}; nil if there is none.
function views.short(run, id)
  local parent, title, record, depth, tags, type_name, traits =
    unpack(redis.call('HMGET', run.keys.item .. id, 'pa', 't', 'w', 'd', 'g', 'y', 'q'))
  if not record then return nil end
  local score = item_record.score(record)
  return {
    id, parent, title_of(run, id, title), classes.role_of(score), item_record.label(record), classes.priority_of(score),
    tonumber(depth or 0), tags, type_name, traits,
  }
end

-- Adds to such a row what a search shows on request, in the order of the reply struct (Details in store/query.py).
function views.add_details(run, row)
  local item = {role = row[4]}
  local fields =
    {'rq', 'rs', 'nv', 'du', 'rc', 'rn', 'oc', 'us', 'ub', 'bu', 'bx', 'st', 'w', 'u', 'an', 'am', 'nt'}
  local values = redis.call('HMGET', run.keys.item .. row[1], unpack(fields))
  for n, field in ipairs(fields) do item[field] = values[n] end
  if item.w then item_record.unpack(item, item.w) end
  row[#row + 1] = {item.rq, item.rs, views.due_times(run, item), views.spending(item), item.st and true or false,
    views.attempts(item), is_left(run, item)}
end

-- {title, role, priority} of a mentioned item, or nil: a third of the cost of `items.load`.
function views.head(run, id)
  local head = run.known_heads[id]
  if head then return head end
  local record, title = unpack(redis.call('HMGET', run.keys.item .. id, 'w', 't'))
  if not record then return nil end
  local score = item_record.score(record)
  head = {title_of(run, id, title), classes.role_of(score), classes.priority_of(score)}
  run.known_heads[id] = head
  return head
end

-- {id, title, depth} of each ancestor (at most three) of the children of `parent`, root first and `parent` last; none
-- for nil or false. Each path is built once.
function views.ancestors(run, parent)
  if not parent then return {} end
  local path = run.known_paths[parent]
  if path then return path end
  local above, title, depth = unpack(redis.call('HMGET', run.keys.item .. parent, 'pa', 't', 'd'))
  path = {unpack(views.ancestors(run, above))}
  path[#path + 1] = {parent, title_of(run, parent, title), tonumber(depth or 0)}
  run.known_paths[parent] = path
  return path
end

return views
