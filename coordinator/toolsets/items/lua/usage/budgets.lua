-- Budgets: how much may be used (usage.lua) for an item with everything below it, by an agent, in a project. A
-- budget has up to three limits, on cost (micro-USD), tokens (input and output) and milliseconds of work. Once a sum
-- has reached a limit, the budget is spent: nothing below the item, or by the agent, or in the project is claimed
-- anew.
--   bu of an item: its limits in this order, separated by commas, '' for none of a kind
--   bx of an item: '1' if its budget is spent. Then it is in a class of items that wait, and selectors do not look
--     below it (selectors.lua, trees.lua)
--   spent_budgets  the ids of these items that have not ended
--   spent_ended    how many of them have ended, if any: what is below one of these is not claimed either
-- The part `b` of the settings (terms.lua): {list of {begins, whole, name, day, total} for agents, day,
-- total}: an agent has the first budget with whose `begins` its name begins, or if `whole` is true, whose `begins` it
-- is; then the budgets of the project. day and total: {cost, tokens, ms}, -1 for no limit, or false.
-- What is told of a spent budget: {of = item, agent or project, name = id or name, day = whether it is that of a day,
-- measure = of a limit that is reached, its place in the budget, limit, used}.
-- Events: budget_spent, and budget_left once it is spent no longer.
-- In a call: any_spent, as below; spent, by id: the nearest such item of it and those above it, or false; callers, by
-- agent: its spent budget, or false.
-- owns: item.bx spent_budgets spent_ended
local available = require 'available'
local bounds = require 'bounds'
local classes = require 'classes'
local index = require 'index'
local item_events = require 'item_events'
local items = require 'items'
local sums = require 'sums'

local budgets = {}

local TERMINAL = classes.TERMINAL

local LIMITS = '^(%d*),(%d*),(%d*)$'

-- The limits of an item's budget as a list, -1 for none of a kind.
local function limits_of(text)
  local cost, tokens, wall = string.match(text, LIMITS)
  return {tonumber(cost) or -1, tonumber(tokens) or -1, tonumber(wall) or -1}
end

-- The first limit that a sum (a list, nil for nothing) has reached: {measure, limit, used}, or nil.
local function reached(limits, sum)
  if not (limits and sum) then return nil end
  local used = {sum[4], sum[1] + sum[2], sum[5]}
  for n, limit in ipairs(limits) do
    if limit >= 0 and used[n] >= limit then return {measure = n, limit = limit, used = used[n]} end
  end
end

local function told_as(told, of, name, day)
  if told then told.of, told.name, told.day = of, name, day end
  return told
end

-- Whether the limits `to` allow more than `from` (both as stored, false or nil: none).
function budgets.allows_more(from, to)
  if not from then return false end
  local before, after = limits_of(from), to and limits_of(to) or {-1, -1, -1}
  for n, limit in ipairs(before) do
    if limit >= 0 and (after[n] < 0 or after[n] > limit) then return true end
  end
  return false
end

-- Whether any item's budget may be spent.
function budgets.any_spent(run)
  local own = run[budgets] or {}
  run[budgets] = own
  if own.any_spent == nil then
    own.any_spent = not run.absent[run.keys.spent_budgets]
      and redis.call('EXISTS', run.keys.spent_budgets, run.keys.spent_ended) > 0
  end
  return own.any_spent
end

local function count_ended(run, by)
  if redis.call('INCRBY', run.keys.spent_ended, by) == 0 then redis.call('DEL', run.keys.spent_ended) end
end

-- Adds an item to those whose budget is spent.
local function enter(run, item)
  if item.role == TERMINAL then count_ended(run, 1) else redis.call('SADD', run.keys.spent_budgets, item.id) end
end

-- Takes it off, with the role that it had then or has now.
local function leave(run, item)
  if redis.call('SREM', run.keys.spent_budgets, item.id) == 0 then count_ended(run, -1) end
end

-- Notes that an item with a spent budget has ended, or is open again.
function budgets.cross_terminal(run, item)
  leave(run, item)
  enter(run, item)
end

-- Notes whether the budget of a loaded item is spent, once it or the sums of the item have changed.
function budgets.judge(run, item)
  if not (item.bu or item.bx) then return end
  local spent = item.bu and reached(limits_of(item.bu), sums.together(item.us, item.ub)) ~= nil or false
  if spent == (item.bx ~= nil) then return end
  local own = run[budgets] or {}
  run[budgets] = own
  items.set(item, 'bx', spent and '1')
  own.spent = nil
  if spent then
    enter(run, item)
    own.any_spent = true
  else
    leave(run, item)
    available.note(run, 'freed', item.id)
  end
  if not classes.is_held(item) then index.move_to_class(run, item, classes.unclaimed_class(item, item.role)) end
  items.save(run, item)
  if not spent and item.k then bounds.restore(run, item) end
  item_events.emit(run, spent and 'budget_spent' or 'budget_left', item)
end

-- Forgets an item that is deleted.
function budgets.forget(run, item)
  if item.bx then leave(run, item) end
end

-- Whether the budget of an item itself is spent.
function budgets.is_spent(run, id)
  return budgets.any_spent(run) and redis.call('HEXISTS', run.keys.item .. id, 'bx') == 1
end

-- The nearest item whose budget is spent, of an item and those above it; false if there is none.
function budgets.spent_at(run, id)
  if not id or not budgets.any_spent(run) then return false end
  local known = run[budgets].spent or {}
  run[budgets].spent = known
  if known[id] == nil then
    local parent, spent = unpack(redis.call('HMGET', run.keys.item .. id, 'pa', 'bx'))
    known[id] = spent and id or budgets.spent_at(run, parent)
  end
  return known[id]
end

-- Forgets which items are below such ones, as these have changed.
function budgets.forget_spent(run)
  if run[budgets] then run[budgets].spent = nil end
end

-- Forgets what callers have used, as that has changed.
function budgets.forget_callers(run)
  if run[budgets] then run[budgets].callers = nil end
end

-- The spent budget of an item or above it; nil if there is none.
local function of_item(run, id)
  local spent = budgets.spent_at(run, id)
  local item = spent and items.load(run, spent)
  return item and told_as(reached(limits_of(item.bu), sums.together(item.us, item.ub)), 'item', spent, false)
end

-- The budget that the settings give to an agent, or nil.
function budgets.of_agent(list, agent)
  for _, one in ipairs(list) do
    if one[2] and agent == one[1] or not one[2] and string.sub(agent, 1, #one[1]) == one[1] then return one end
  end
end

local function list_of(sum)
  return sum and {sums.parts(sum)}
end

-- The spent budget of an agent (false: of nobody in particular) or of the project; nil if there is none.
function budgets.of_caller(run, agent)
  local settings = run.settings.b
  if not settings then return nil end
  local own = run[budgets] or {}
  run[budgets] = own
  local known = own.callers or {}
  own.callers = known
  if known[agent] == nil then
    local today, share = sums.today(run), agent and budgets.of_agent(settings[1], agent)
    local entry, of_day, total = unpack(redis.call('HMGET', run.keys.usage, 'a' .. (agent or ''), 'd' .. today, 'p'))
    local agent_total, agent_day = sums.of_agent(entry, today)
    known[agent] = share and told_as(reached(share[5], list_of(agent_total)), 'agent', share[3], false)
      or share and told_as(reached(share[4], list_of(agent_day)), 'agent', share[3], true)
      or told_as(reached(settings[3], list_of(total)), 'project', run.project, false)
      or told_as(reached(settings[2], list_of(of_day)), 'project', run.project, true) or false
  end
  return known[agent] or nil
end

-- The spent budget that keeps an agent from an item (nil: from any item); nil if there is none.
function budgets.against(run, id, agent)
  local own = run[budgets]
  local some = id and (not run.absent[run.keys.spent_budgets] or own and own.any_spent) -- the latter by this call
  return some and of_item(run, id) or run.settings.b and budgets.of_caller(run, agent) or nil
end

-- A refused claim, as replies show it.
function budgets.refusal(run, id, told)
  local retry_ms = told.day and sums.until_tomorrow(run) or 0
  return {'budget_exhausted', id, retry_ms, 0, 0, {budget = told}}
end

return budgets
