-- Views of items in replies: full, a row of a list, or the head for mentions. In a call: heads and paths by id, each
-- built once.
-- owns: none
local classes = require 'classes'
local held_back = require 'held_back'
local item_record = require 'item_record'
local items = require 'items'

local TERMINAL = classes.TERMINAL

local views = {}

local TRANSITIONS_SHOWN = 10
-- Letters of what rows show, and of what they show on request besides.
local SHORT, DETAILS = {'t', 'pa', 'g', 'y', 'q'}, {'rs', 'nv', 'du', 'rc', 'oc', 'us', 'ub', 'bx'}
for n = 1, #items.PLAIN do DETAILS[#DETAILS + 1] = items.PLAIN[n] end

local function in_call(run, name)
  local own = run[views] or {}
  run[views] = own
  own[name] = own[name] or {}
  return own[name]
end

-- The title of an item, from its id and the title in its hash (false if too long for that).
local function title_of(run, id, stored)
  return stored or redis.call('HGET', run.keys.text .. id, 't')
end

-- Transitions of an item from one of its entries in transitions back (nil: from its last), newest first: at most `most`
-- as Changed (store/base.py); their entries; and the entry before these, nil at the beginning. Fewer than `most`
-- although there is one before: that was trimmed.
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

-- The attempts on an item as AttemptRecord (store/attempts.py). `list` = the list of these as stored, or nil.
function views.attempts(item, list)
  local held_until = not held_back.not_before(item) and not held_back.is_template(item) and tonumber(item.nt)
  return {tonumber(item.am) or false, tonumber(item.an) or 0, held_until or 0, list and cjson.decode(list) or {}}
end

-- Adds to what an item says what follows of it now: whether it is `overdue`, and of a template the time (ms) `after`
-- which its next one is.
local function add_times(run, item, said)
  local due = item.du and item.role ~= TERMINAL and tonumber(string.match(item.du, '^%d+$'))
  if due and due <= run.now then said.overdue = true end
  if item.rc then said.after = math.max(tonumber(item.rn), run.now) end
end

-- What an item says: fields by letter, as they are stored, without long texts.
function views.said(run, item)
  local said = {
    s = item.s, lb = item.lb, p = classes.priority_of(item.score), c = classes.complexity_of(item.score) or nil,
  }
  for n = 1, #SHORT do said[SHORT[n]] = item[SHORT[n]] end
  for n = 1, #DETAILS do said[DETAILS[n]] = item[DETAILS[n]] end
  add_times(run, item, said)
  return said
end

-- Whether an agent has begun an item in its role and left it: nobody holds it.
local function is_left(run, item)
  return not (item.holder and item.expires > run.now) and classes.is_left(item, item.role)
end

-- The full view of an item: View (store/query.py).
-- `no_texts` = whether it is known to have no long texts; `no_transitions` = whether these are not asked for.
function views.full(run, item, no_texts, no_transitions)
  local said, created, attempts = views.said(run, item), classes.created_of(item.score), nil
  local flat = no_texts and {} or redis.call('HGETALL', run.keys.text .. item.id)
  for n = 1, #flat, 2 do
    if flat[n] == 'a' then attempts = flat[n + 1] else said[flat[n]] = flat[n + 1] end
  end
  return {
    item.id, item.role, item.depth, said, tonumber(item.pr) or false, created, item.modified_at or created,
    item.role_changed_at or created, (views.transitions(run, item, nil, no_transitions and 0 or TRANSITIONS_SHOWN)),
    views.attempts(item, attempts), is_left(run, item),
  }
end

-- The row of an item in search and overview: ShortView (store/query.py); nil if there is none.
function views.short(run, id)
  local values = redis.call('HMGET', run.keys.item .. id, 'w', 'd', unpack(SHORT))
  local record, depth = values[1], values[2]
  if not record then return nil end
  local score = item_record.score(record)
  local said = {lb = item_record.label(record) or nil, p = classes.priority_of(score)}
  for n = 1, #SHORT do said[SHORT[n]] = values[n + 2] or nil end
  said.t = title_of(run, id, said.t)
  return {id, classes.role_of(score), tonumber(depth or 0), said}
end

-- Adds to such a row what a search shows on request.
function views.add_details(run, row)
  local item, said = {role = row[2]}, row[4]
  local values = redis.call('HMGET', run.keys.item .. row[1], 'w', 'u', 'an', 'nt', 'rn', unpack(DETAILS))
  item.w, item.u, item.an, item.nt, item.rn = unpack(values, 1, 5)
  for n = 1, #DETAILS do
    local value = values[n + 5] or nil
    item[DETAILS[n]], said[DETAILS[n]] = value, value
  end
  if item.w then item_record.unpack(item, item.w) end
  add_times(run, item, said)
  row[5], row[6] = views.attempts(item), is_left(run, item)
end

-- {title, role, priority} of a mentioned item, or nil: a third of the cost of `items.load`.
function views.head(run, id)
  local heads = in_call(run, 'heads')
  local head = heads[id]
  if head then return head end
  local record, title = unpack(redis.call('HMGET', run.keys.item .. id, 'w', 't'))
  if not record then return nil end
  local score = item_record.score(record)
  head = {title_of(run, id, title), classes.role_of(score), classes.priority_of(score)}
  heads[id] = head
  return head
end

-- {id, title, depth} of each ancestor (at most three) of the children of `parent`, root first and `parent` last; none
-- for nil or false. Each path is built once.
function views.ancestors(run, parent)
  if not parent then return {} end
  local paths = in_call(run, 'paths')
  local path = paths[parent]
  if path then return path end
  local above, title, depth = unpack(redis.call('HMGET', run.keys.item .. parent, 'pa', 't', 'd'))
  path = {unpack(views.ancestors(run, above))}
  path[#path + 1] = {parent, title_of(run, parent, title), tonumber(depth or 0)}
  paths[parent] = path
  return path
end

return views
