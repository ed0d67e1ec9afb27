-- What items say about time besides notBefore (held_back.lua): when they are due, and of templates when they
-- recur. A template is never offered. At its times new items are made that repeat it, its occurrences. Front-ends know
-- calendars and compute the times; make_occurrences.lua checks that nobody else has dealt with them. A template that is
-- blocked or terminal makes none.
--   du  when the item is due (ms); of a template: '+' and how long after each of its times (ms)
--   rc  of a template: how it recurs, JSON [cron, time zone, missed, overlap]
--   rn  of a template: up to when its times have been dealt with (ms)  oc the template that it is an occurrence of
--   due          open items by when they are due (ms)
--   recurring    templates that make items, by when to look at them next (ms)
--   occurrences  template -> how many of its occurrences are open
-- owns: item.du item.oc item.rc item.rn due recurring occurrences
local classes = require 'classes'
local clock = require 'clock'
local held_back = require 'held_back'
local items = require 'items'

local BLOCKED, QUEUE, TERMINAL = classes.BLOCKED, classes.QUEUE, classes.TERMINAL

local due_times = {}

local DUE_MAX = 20 -- templates per look

-- The time (ms) that a caller gave: ms as a number, or '+' and the ms from now on.
local function time_of(run, given)
  local after = type(given) == 'string' and string.match(given, '^%+(%d+)$')
  return after and run.now + after or tonumber(given)
end

-- The time (ms) at which an item is due, from its field du; nil if none, or if that depends on its template's times.
function due_times.due_at(du)
  return du and tonumber(string.match(du, '^%d+$'))
end

local function list_due(run, item)
  local due = due_times.due_at(item.du)
  if due and item.role ~= TERMINAL then
    redis.call('ZADD', run.keys.due, due, item.id)
  else
    redis.call('ZREM', run.keys.due, item.id)
  end
end

-- Whether an item is a template that makes items, in its role or another one.
function due_times.makes_items(item, role)
  role = role or item.role
  return item.rc and role ~= BLOCKED and role ~= TERMINAL
end

-- Begins with the times of a template from `from` (ms) on, nil: from those on that are not dealt with.
function due_times.schedule(run, item, from)
  if from then items.set(item, 'rn', clock.whole(math.max(from, tonumber(item.rn) or 0))) end
  if due_times.makes_items(item) then
    redis.call('ZADD', run.keys.recurring, run.now, item.id)
  else
    redis.call('ZREM', run.keys.recurring, item.id)
  end
end

local function count_open(run, item, by)
  if redis.call('HINCRBY', run.keys.occurrences, item.oc, by) == 0 then
    redis.call('HDEL', run.keys.occurrences, item.oc)
  end
end

local function set_due(run, item, given, template)
  template = template and type(given) == 'string' and string.sub(given, 1, 1) == '+'
  items.set(item, 'du', given and (template and given or clock.whole(time_of(run, given))))
  list_due(run, item)
end

-- Whether the fields of a new item say anything about time.
function due_times.are_given(fields)
  return fields.nv or fields.du or fields.rc or fields.oc
end

-- Gives a new item of a role what it says about time: {nv, du, rc, rn, oc}, each optional. Its role is not set yet.
function due_times.enter(run, item, role, fields)
  item.role = role
  if fields.oc then
    items.set(item, 'oc', fields.oc)
    if role ~= TERMINAL then count_open(run, item, 1) end
  end
  if fields.rc then
    items.set(item, 'rc', fields.rc)
    due_times.schedule(run, item, fields.rn or run.now)
  end
  if fields.nv then items.set(item, 'nv', clock.whole(time_of(run, fields.nv))) end
  if fields.du then set_due(run, item, fields.du, item.rc) end
  held_back.finish(run, item, role)
end

-- Whether fields cannot be changed so: the time at which a template is due counts from each of its times.
function due_times.is_wrong(item, fields)
  local template, due = fields.rc, fields.du
  if template == nil then template = item.rc end
  if due == nil then due = item.du end
  return template and due and not string.match(due, '^%+')
end

-- Changes when an item is due, as the field du says, and a new or former template needs.
function due_times.change_due(run, item, fields)
  local due, template = fields.du, fields.rc
  if template == nil then template = item.rc else due = due == nil and item.du or due end
  if due ~= nil then set_due(run, item, due, template) end
end

-- Changes what else an item says about time: nv, rc, false clears; moves it to its class, and saves it.
function due_times.change(run, item, fields)
  if fields.nv == nil and fields.rc == nil then return end
  if fields.rc ~= nil and (fields.rc or nil) ~= item.rc then
    items.set(item, 'rc', fields.rc)
    items.set(item, 'rn', nil)
    due_times.schedule(run, item, item.rc and run.now)
    held_back.finish(run, item)
  end
  if fields.nv ~= nil then
    held_back.set_not_before(run, item, fields.nv and time_of(run, fields.nv))
    if item.rc then due_times.schedule(run, item, nil) end
  end
  held_back.place(run, item)
end

-- The role of an item has changed; `items.save` must follow.
function due_times.note_role(run, item, before)
  local closed, was_closed = item.role == TERMINAL, before == TERMINAL
  if item.du and closed ~= was_closed then list_due(run, item) end
  if item.oc and closed ~= was_closed then count_open(run, item, closed and -1 or 1) end
  local makes = due_times.makes_items(item)
  if makes == due_times.makes_items(item, before) then return end
  due_times.schedule(run, item, makes and run.now)
end

-- No front-end is to look at a template until `due_times.schedule`.
function due_times.pause(run, item)
  if item.rc then redis.call('ZREM', run.keys.recurring, item.id) end
end

-- An item is deleted.
function due_times.forget(run, item)
  if item.du then redis.call('ZREM', run.keys.due, item.id) end
  due_times.pause(run, item)
  if item.oc and item.role ~= TERMINAL then count_open(run, item, -1) end
end

-- Whether a template has open occurrences.
function due_times.has_open(run, template)
  return redis.call('HEXISTS', run.keys.occurrences, template.id) == 1
end

-- The spec (creation.lua) of an occurrence of a template at a time (ms), which is its notBefore: the item
-- alone, in queue, with the budget of the template as one of its own. `texts` = those beside the template.
function due_times.occurrence(template, texts, id, time)
  local after = template.du and string.match(template.du, '^%+(%d+)$')
  local fields = {
    t = template.t, s = template.s, g = template.g, y = template.y, q = template.q,
    p = classes.priority_of(template.score), c = classes.complexity_of(template.score) or nil,
    lb = template.role == QUEUE and template.lb or nil, rs = template.ro and (template.rs or '') or nil,
    nv = time, du = after and time + after, oc = template.id,
  }
  for _, field in ipairs(items.PLAIN) do fields[field] = template[field] end
  for field, text in pairs(texts) do
    if items.is_beside(field, text) then fields[field] = text end
  end
  return {id, template.pa or '', QUEUE, fields}
end

-- The times of a template up to one (ms, a text) are dealt with: looks at it again at a time (ms), or now if that has
-- passed; 0: never. `items.save` must follow.
function due_times.look_at(run, template, dealt, time)
  items.set(template, 'rn', dealt)
  if time > 0 then
    redis.call('ZADD', run.keys.recurring, math.max(time, run.now), template.id)
  else
    redis.call('ZREM', run.keys.recurring, template.id)
  end
end

-- The templates to be looked at: {id, rc, rn, nv or false} of each.
function due_times.templates(run)
  local list = {}
  for n, id in ipairs(redis.call('ZRANGEBYSCORE', run.keys.recurring, '-inf', run.now, 'LIMIT', 0, DUE_MAX)) do
    list[n] = {id, unpack(redis.call('HMGET', run.keys.item .. id, 'rc', 'rn', 'nv'))}
  end
  return list
end

-- When to look at a template next (ms); nil if there is none.
function due_times.next_look(run)
  return tonumber(redis.call('ZRANGE', run.keys.recurring, 0, 0, 'WITHSCORES')[2])
end

-- How many open items are overdue.
function due_times.overdue(run)
  return redis.call('ZCOUNT', run.keys.due, '-inf', run.now)
end

return due_times
