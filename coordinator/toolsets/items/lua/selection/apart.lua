-- Ready items that are not for everybody. In the shared scopes of the ranked index they are, while ready, in a class
-- that no selector searches (classes.lua): so a selector that may not have them does not meet them, however many there
-- are. In their real class they are in scopes of their set: 'R' .. set .. ' ' and the scope, where '*' stands for
-- everything. What is not ready is in the shared scopes alone.
-- A set is a text: the capabilities that its items require (`rq`), and if there are further conditions '|' and these
-- (`as`), each a word, separated by commas. They are chosen when an item becomes ready (`choose`), and hold until it is
-- not: an item knows its set, whatever changes meanwhile. With the part `d` of the settings (terms.lua) the first one
-- of items that are due at a time is DUE: in the scopes of such sets their score has the complexity 0, which no item
-- has, and the time at which they are due in place of their age. So they come before the others of their priority. For
-- selectors that go by age they are with their own score in scopes that begin with 'A' instead of 'R'.
-- The set of what is assigned is that of the assignee; OWN is its last condition, ready or not. Selectors find these,
-- and sets of capabilities alone, by requirements.lua, the others by their best items (apart_sets.lua):
--   apart  the character 48 + class .. set, by the place of the best item of the set in that class (`classes.place_of`)
-- In a call: new, members of sets that it has chosen first; added, how many of these.
-- owns: item.as item.ro item.rs apart
local classes = require 'classes'
local demands = require 'demands'
local fairness = require 'fairness'
local first_sets = require 'first_sets'
local items = require 'items'
local requirements = require 'requirements'

local CLASS_SIZE, GROUP_SIZE, PRIORITY_SIZE = classes.CLASS_SIZE, classes.GROUP_SIZE, classes.PRIORITY_SIZE
local RANK_EPOCH = classes.RANK_EPOCH

local apart = {}

local DUE, OWN = 'due', '@'
-- Sets with further conditions, per project: with all conditions of their items, then with one. Items of further sets
-- stay with the shared ones, and are met one by one.
local DETAILED_MAX, SETS_MAX = 250, 500

-- The set of an item in a ready class; nil if it is shared.
function apart.set_of(item)
  if item.to then return requirements.set_of_assignee(item.to) end
  if not item.as then return item.rq end
  return (item.rq or '') .. '|' .. item.as
end

-- Whether items of a set may rank by when they are due.
function apart.is_by_due(set)
  return requirements.is_of_assignee(set) or string.find(set, '|' .. DUE, 1, true) ~= nil
end

-- The scope of a set; `by_age` = for a selector that goes by age.
function apart.scope(set, scope, by_age)
  return (by_age and apart.is_by_due(set) and 'A' or 'R') .. set .. ' ' .. scope
end

local function is_by_due(item)
  return item.du and item.as and string.sub(item.as, 1, #DUE) == DUE
end

-- The score of an item in the scopes of its set.
function apart.score_of(item)
  if not is_by_due(item) then return item.score end
  local due = math.max(0, math.min(tonumber(item.du) - RANK_EPOCH, GROUP_SIZE - 1))
  return math.floor(item.score / PRIORITY_SIZE) * PRIORITY_SIZE + due
end

-- The scopes with a prefix that an item belongs to.
local function scopes_of(item, prefix)
  local list = {prefix .. '*'}
  if item.pa then list[2] = prefix .. 'p' .. item.pa end -- no selector asks for roots alone
  if item.g then
    for tag in string.gmatch(item.g, '[^,%s]+') do list[#list + 1] = prefix .. 'g' .. tag end
  end
  if item.y then list[#list + 1] = prefix .. 'y' .. item.y end
  return list
end

-- The scopes of an item's set that it belongs to, with its scores there.
function apart.entries_of(item)
  local entries, set = {}, apart.set_of(item)
  if not set then return entries end
  for _, scope in ipairs(scopes_of(item, 'R' .. set .. ' ')) do entries[scope] = apart.score_of(item) end
  if item.to then entries[requirements.ASSIGNED] = item.score end
  local by_age = (item.to or is_by_due(item)) and scopes_of(item, 'A' .. set .. ' ') or {}
  for _, scope in ipairs(by_age) do entries[scope] = item.score end
  return entries
end

-- The member of the key apart for a set and a class, and both from it.
function apart.member(set, class)
  return string.char(48 + class) .. set
end

function apart.set_of_member(member)
  return string.sub(member, 2)
end

-- Whether there is a set, or room for it if there are to be `most`.
local function has_room(run, set, class, most)
  local member = apart.member(set, class)
  local own = run[apart] or {new = {}, added = 0}
  run[apart] = own
  if own.new[member] or redis.call('ZSCORE', run.keys.apart, member) then return true end
  if redis.call('ZCARD', run.keys.apart) + own.added >= most then return false end
  own.new[member], own.added = true, own.added + 1
  return true
end

-- The further conditions of an item that becomes ready, as alternatives: those that keep it from most callers first.
local function conditions_of(run, item)
  local list = item.to and {OWN} or item.rs and demands.conditions(run, item.rs) or {}
  if not (item.du and run.settings.d) then return list end
  for n, conditions in ipairs(list) do list[n] = DUE .. ',' .. conditions end
  if not item.to then list[#list + 1] = DUE end
  return list
end

-- Chooses and stores the set of an item that is about to be ready: the first that there is room for.
local function choose(run, item)
  local before = item.as
  item.as = nil
  for n, conditions in ipairs(conditions_of(run, item)) do
    local most = n == 1 and DETAILED_MAX or SETS_MAX
    if item.to or has_room(run, (item.rq or '') .. '|' .. conditions, item.class, most) then
      item.as = conditions
      break
    end
  end
  if item.as == before then return end
  if item.as then
    redis.call('HSET', run.keys.item .. item.id, 'as', item.as)
  else
    redis.call('HDEL', run.keys.item .. item.id, 'as')
  end
end

-- Prepares the index entries of an item whose class has changed from `before` (-1: it is new).
function apart.moved(run, item, before)
  item.was_ready = item.was_ready or classes.READY_CLASSES[before] and before
  local ready = classes.READY_CLASSES[item.class]
  local new = (item.rs or item.du or item.as) and ready and not item.was_ready
  if new or item.to and not item.as then choose(run, item) end
  if item.rp and (not ready or item.role == classes.BLOCKED) then fairness.forget(run, item) end
end

-- Brings what an item demands up to date (`demands.after`); `own` = what it says itself, false: not any more, nil: as
-- before. `apart.update` must follow.
function apart.update_demands(run, item, own, demanded)
  if own ~= nil then items.set(item, 'ro', own and '1') end
  local before = item.rs
  if demanded == before then return end
  if item.rp then fairness.forget(run, item) end
  if item.role ~= classes.TERMINAL then
    if before then demands.count(run, before, -1) end
    if demanded then demands.count(run, demanded, 1) end
  end
  items.set(item, 'rs', demanded)
end

-- What the set of an item follows from.
function apart.causes_of(item)
  return (item.rs or '') .. ' ' .. (item.du or '') .. ' ' .. (item.to or '')
end

-- Chooses the set of an item again, if that followed from something else (`before`).
function apart.update(run, item, before)
  local ready = classes.READY_CLASSES[item.class]
  if (ready or item.to or item.as) and apart.causes_of(item) ~= before then choose(run, item) end
end

-- Brings the entry of a set with further conditions up to date, after items of a class have come or gone; `gone` = the
-- only one of these, if known.
function apart.refresh(run, set, class, gone)
  if requirements.is_of_assignee(set) then return end
  local low, scope = class * CLASS_SIZE, run.keys.ranked .. apart.scope(set, '*')
  local two = first_sets.items(run, scope)
  local best, score
  if gone and two and two[1] == gone then
    best, score = two[3], two[4]
  else
    best, score = unpack(redis.call('ZRANGEBYSCORE', scope, low, low + CLASS_SIZE - 1, 'WITHSCORES', 'LIMIT', 0, 1))
  end
  if best then
    redis.call('ZADD', run.keys.apart, classes.place_of(class, score, best), apart.member(set, class))
  else
    redis.call('ZREM', run.keys.apart, apart.member(set, class))
  end
  first_sets.forget(run)
end

-- An item has come to the scopes of its set, or has left them, where it was in the class `was_ready`.
function apart.place(run, item)
  local ready, was, set = classes.READY_CLASSES[item.class], item.was_ready, apart.set_of(item)
  if ready and item.to then
    requirements.note_assigned(run)
  elseif ready and item.as then
    local place = classes.place_of(item.class, apart.score_of(item), item.id)
    redis.call('ZADD', run.keys.apart, 'LT', place, apart.member(set, item.class))
    first_sets.forget(run)
  end
  if item.as and was and not (ready and was == item.class) then apart.refresh(run, set, was, not ready and item.id) end
  first_sets.forget_items(run)
  item.was_ready = ready and item.class
end

return apart
