-- Rows of items in lists that people read, what a card of a board shows: ItemRow (store/boards/rows.py), by its names.
-- owns: none
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
  local row, created = views.said(run, item), classes.created_of(item.score)
  local claim = item.role ~= TERMINAL and item or {} -- what has ended is held by nobody
  row.id, row.t, row.role, row.state, row.depth = id, items.title_of(run, item), item.role,
    classes.shown_state(item), item.depth
  row.created, row.role_changed = created, item.role_changed_at or created
  row.modified = item.modified_at or created
  row.holder, row.claimed, row.renewed = claim.holder, claim.first_claimed_at, claim.claimed_at
  row.expires, row.fence, row.holds = claim.expires, item.fence, item.rh
  row.am, row.attempts, row.blockers = tonumber(item.am), tonumber(item.an), tonumber(item.nb)
  row.held_until = not held_back.is_template(item) and tonumber(item.nt) or nil
  row.quarantined = held_back.is_quarantined(item) or nil
  row.children, row.ended_children = children_of(run, item)
  row.used_below, row.spent = item.ub, budgets.spent_at(run, id) or nil
  return row
end

-- The rows of those items of a list that exist.
function rows.of_all(run, ids)
  local list = {}
  for _, id in ipairs(ids) do list[#list + 1] = rows.of(run, id) end
  return list
end

return rows
