-- How much of the budgets that the settings give is spent, for metrics: shares of the limit that is nearest to be
-- reached, 1 = spent; -1: there is no such budget. Of agents those last seen are looked at, because there can be many.
-- owns: none
local budgets = require 'budgets'
local sums = require 'sums'

local SEEN_MAX = 200

-- The share of limits (false: none) that a sum (nil: nothing) has reached.
local function share(limits, sum)
  if not limits then return -1 end
  local input, output, _, cost, wall = sums.parts(sum)
  local used, most = {cost, input + output, wall}, 0
  for n, limit in ipairs(limits) do
    if limit >= 0 then most = math.max(most, used[n] / limit) end
  end
  return most
end

-- {of the day, in total} of the project, and a list of {name of the budget, of the day, in total} of agents: of those
-- with this budget the one that has used most of it.
return function(run)
  local settings = run.settings.b
  if not settings then return {{-1, -1}, {}} end
  local today, list, by_name = sums.today(run), {}, {}
  local of_day, total = unpack(redis.call('HMGET', run.keys.usage, 'd' .. today, 'p'))
  for n, one in ipairs(settings[1]) do
    list[n] = {one[3], share(one[4], nil), share(one[5], nil)}
    by_name[one[3]] = list[n]
  end
  local seen, fields = list[1] and redis.call('ZREVRANGE', run.keys.agent_seen, 0, SEEN_MAX - 1) or {}, {}
  for n, agent in ipairs(seen) do fields[n] = 'a' .. agent end
  for n, entry in ipairs(seen[1] and redis.call('HMGET', run.keys.usage, unpack(fields)) or {}) do
    local own = budgets.of_agent(settings[1], seen[n])
    if own and entry then
      local found, sum, sum_of_day = by_name[own[3]], sums.of_agent(entry, today)
      found[2] = math.max(found[2], share(own[4], sum_of_day))
      found[3] = math.max(found[3], share(own[5], sum))
    end
  end
  return {{share(settings[2], of_day), share(settings[3], total)}, list}
end
