-- Sums of usage as they are stored: a text of five whole numbers, separated by commas: input, output and cached
-- tokens, cost in micro-USD, milliseconds of work; they rise to MOST at most. The entry of an agent is its sum, a
-- blank, the last day, a colon, and its sum on that day. Days are counted from 1970, in UTC.
-- owns: none
local sums = {}

local SUM, FORMAT, NOTHING = '^(%d+),(%d+),(%d+),(%d+),(%d+)$', '%d,%d,%d,%d,%d', '0,0,0,0,0'
local DAY_MS = 86400000
local MOST = 2 ^ 53 - 1 -- beyond that, numbers are not exact

local function bounded(number)
  return number < 0 and 0 or number > MOST and MOST or number
end

-- The five numbers of a sum; zeros for nil and false.
function sums.parts(sum)
  if not sum then return 0, 0, 0, 0, 0 end
  local input, output, cached, cost, wall = string.match(sum, SUM)
  return tonumber(input), tonumber(output), tonumber(cached), tonumber(cost), tonumber(wall)
end

-- A sum and a list of five numbers.
function sums.plus(sum, more)
  local input, output, cached, cost, wall = string.match(sum or NOTHING, SUM)
  input, output, cached = input + more[1], output + more[2], cached + more[3]
  cost, wall = cost + more[4], wall + more[5]
  if math.min(input, output, cached, cost, wall) < 0 or math.max(input, output, cached, cost, wall) > MOST then
    input, output, cached, cost, wall = bounded(input), bounded(output), bounded(cached), bounded(cost), bounded(wall)
  end
  return string.format(FORMAT, input, output, cached, cost, wall)
end

-- Two sums together, as a list; nil if both are nil.
function sums.together(one, other)
  if not (one or other) then return nil end
  local list = {sums.parts(one or other)}
  if not (one and other) then return list end
  for n, part in ipairs({sums.parts(other)}) do list[n] = list[n] + part end
  return list
end

function sums.today(run)
  return math.floor(run.now / DAY_MS)
end

-- Milliseconds until the day is over.
function sums.until_tomorrow(run)
  return DAY_MS - run.now % DAY_MS
end

-- The sum of an agent and that of a day, from its entry; nil for none.
function sums.of_agent(entry, day)
  if not entry then return nil, nil end
  local total, last, of_day = string.match(entry, '^(%S+) (%d+):(%S+)$')
  return total, tonumber(last) == day and of_day or nil
end

-- The entry of an agent after an addition.
function sums.with_agent(entry, day, more)
  local total, of_day = sums.of_agent(entry, day)
  return sums.plus(total, more) .. ' ' .. day .. ':' .. sums.plus(of_day, more)
end

return sums
