-- Usage: what work on items has cost, as agents report it, in sums that only rise (sums.lua). What agents
-- report is a list of the five numbers and the name of a model, '' for none.
--   us, ub of an item: its own sum, and that of the items below it at any depth, those that were deleted included;
--     absent if nothing was reported. An item that is moved takes both along
--   usage         p -> the sum of the project; d .. day -> of a day; m .. model -> of a model; a .. agent -> its entry.
--                 No model and no agent have the name ''. Those beyond NAMES_MAX are summed together, as OTHERS
--   usage_ranked  the RANKED_MAX items with the greatest sums, with what is below them: by cost, by tokens where
--                 there is none
-- owns: item.ub item.us usage usage_ranked
local budgets = require 'budgets'
local item_events = require 'item_events'
local items = require 'items'
local sums = require 'sums'

local usage = {}

local NAMES_MAX = 20000 -- agents, models and days
local OTHERS = '\1' -- no name has it
local RANKED_MAX = 1000

-- The place of an item in usage_ranked.
local function rank_of(item)
  local input, output, _, cost = unpack(sums.together(item.us, item.ub))
  return cost > 0 and cost or input + output
end

-- Ranks items: scores and ids in turn.
local function rank(run, list)
  local key = run.keys.usage_ranked
  if redis.call('ZADD', key, unpack(list)) > 0 then redis.call('ZREMRANGEBYRANK', key, 0, -RANKED_MAX - 1) end
end

-- Adds to the sums of an item and of those above it what is used below them, and judges their budgets. Appends their
-- places to `ranked`.
local function add_above(run, id, more, ranked)
  while id do
    local above = items.load(run, id)
    above.ub = sums.plus(above.ub, more)
    redis.call('HSET', run.keys.item .. id, 'ub', above.ub)
    ranked[#ranked + 1], ranked[#ranked + 2] = rank_of(above), id
    budgets.judge(run, above)
    id = above.pa
  end
end

-- Adds to the sums of the project, the day, the model and the agent.
local function add_to_project(run, agent, more, today)
  local key = run.keys.usage
  local names = {'p', 'd' .. today, 'm' .. more[6], 'a' .. agent}
  local known = redis.call('HMGET', key, unpack(names))
  if not (known[3] and known[4]) and redis.call('HLEN', key) >= NAMES_MAX then
    for n = 3, 4 do
      if not known[n] then
        names[n] = string.sub(names[n], 1, 1) .. OTHERS
        known[n] = redis.call('HGET', key, names[n])
      end
    end
  end
  redis.call('HSET', key, names[1], sums.plus(known[1], more), names[2], sums.plus(known[2], more),
    names[3], sums.plus(known[3], more), names[4], sums.with_agent(known[4], today, more))
end

-- Adds what an agent ('' for nobody) reports of an existing item; false: it reports nothing.
function usage.add(run, id, agent, more)
  if not more then return end
  local item = items.load(run, id)
  item.us = sums.plus(item.us, more)
  redis.call('HSET', run.keys.item .. id, 'us', item.us)
  local ranked = {rank_of(item), id}
  budgets.judge(run, item)
  add_above(run, item.pa, more, ranked)
  rank(run, ranked)
  add_to_project(run, agent, more, sums.today(run))
  budgets.forget_callers(run)
end

-- Tells of usage {micro-USD, tokens} that a runner was told of and has not added, by its note under this key.
function usage.refuse(run, id, key, refused)
  local cost, tokens = string.format('%.0f', refused[1]), string.format('%.0f', refused[2])
  item_events.emit_of(run, 'usage_refused', id, 'n', key, 'c', cost, 't', tokens)
end

-- Takes the sums of an item along that has another parent now; `from` = its former one, nil for none.
function usage.move(run, item, from)
  local sum, ranked = sums.together(item.us, item.ub), {}
  if not sum then return end
  add_above(run, item.pa, sum, ranked)
  for n, part in ipairs(sum) do sum[n] = -part end
  add_above(run, from, sum, ranked)
  if ranked[1] then rank(run, ranked) end
end

-- Forgets an item that is deleted; its sum stays in those above it.
function usage.forget(run, item)
  if item.us or item.ub then redis.call('ZREM', run.keys.usage_ranked, item.id) end
  budgets.forget(run, item)
end

-- Stores the sums of another store by day, model and agent: fields and values in turn.
function usage.restore_sums(run, words)
  redis.call('HSET', run.keys.usage, unpack(words))
end

-- Ranks and judges an item that was restored with its sums. (Those of the project: restore_usage.lua.)
function usage.restore(run, item)
  if item.us or item.ub then rank(run, {rank_of(item), item.id}) end
  budgets.judge(run, item)
end

return usage
