-- Rows of items in lists that people read: what a card of a board shows, in the order of the reply struct (Row in
-- store/rows.py).
local budgets = require 'budgets'
local classes = require 'classes'
local held_back = require 'held_back'
local items = require 'items'
local views = require 'views'

local CLASS_SIZE, STATES, TERMINAL = classes.CLASS_SIZE, classes.STATES, classes.TERMINAL

local rows = {}

-- How many children an item has, and how many of these are terminal.
local function children_of(run, item)
  if item.depth == items.MAX_DEPTH then return 0, 0 end
  local key, first = run.keys.ranked .. 'p' .. item.id, TERMINAL * STATES * CLASS_SIZE
  local children = redis.call('ZCARD', key)
  if children == 0 then return 0, 0 end
  return children, redis.call('ZCOUNT', key, first, first + STATES * CLASS_SIZE - 1)
end

-- Nil if there is no such item.
function rows.of(run, id)
  local item = items.load(run, id)
  if not item then return nil end
  local score, quarantined, created = item.score, held_back.is_quarantined(item), classes.created_of(item.score)
  local children, ended = children_of(run, item)
  local claim = item.role ~= TERMINAL and item or {} -- what has ended is held by nobody
  local held_until = not held_back.is_template(item) and tonumber(item.nt)
  return {
    id, items.title_of(run, item), item.role, classes.shown_state(item), item.lb or false,
    classes.priority_of(score), classes.complexity_of(score), item.g or false, item.y or false, item.rq or false,
    item.pa or false, item.depth, created, item.role_changed_at or created, item.modified_at or created,
    claim.holder or '', claim.first_claimed_at or 0, claim.claimed_at or 0, claim.expires or 0, item.fence or 0,
    tonumber(item.an) or 0, tonumber(item.am) or false, held_until or 0, quarantined,
    tonumber(item.nb) or 0, children, ended, views.due_times(run, item),
    item.rs or '', item.rh or '', item.us or '', item.ub or '', item.bu or '', budgets.spent_at(run, id) or '',
    item.st ~= nil,
  }
end

-- The rows of those items of a list that exist.
function rows.of_all(run, ids)
  local list = {}
  for _, id in ipairs(ids) do list[#list + 1] = rows.of(run, id) end
  return list
end

return rows
