--[[
purpose:   Reads sums of usage, for people.
guarantee: A consistent snapshot. O(log n + limit) for items; for the others in proportion to their number, of which
           there are at most 20000.
args:      by limit
           by = i the items with the most usage, a agents, m models, d days
reply:     {now, sum of the project or '', how many open items have a spent budget, list of _Item (store/usage.py), of
           others list of {name, entry} (sums.lua)}; one of the two is empty
errors:    none
--]]
local items = require 'items'
local read = require 'read'

local function item_rows(run, limit)
  local rows = {}
  for _, id in ipairs(redis.call('ZREVRANGE', run.keys.usage_ranked, 0, limit - 1)) do
    local item = items.load(run, id)
    if item then
      rows[#rows + 1] = {id, items.title_of(run, item), item.role, item.us or '', item.ub or '', item.bu or '',
        item.bx ~= nil}
    end
  end
  return rows
end

local function named_rows(run, by)
  local rows, flat = {}, redis.call('HGETALL', run.keys.usage)
  for n = 1, #flat, 2 do
    if string.sub(flat[n], 1, 1) == by then rows[#rows + 1] = {string.sub(flat[n], 2), flat[n + 1]} end
  end
  return rows
end

return function(run, by, limit)
  return read(run, function()
    local total = redis.call('HGET', run.keys.usage, 'p') or ''
    local spent = redis.call('SCARD', run.keys.spent_budgets)
    if by == 'i' then return {run.now, total, spent, item_rows(run, tonumber(limit)), {}} end
    return {run.now, total, spent, {}, named_rows(run, by)}
  end)
end
