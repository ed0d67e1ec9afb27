-- The parts of the ranked index that a search covers. Scores order by class, priority, complexity and age, so the items
-- of one class, priority and complexity (a group) are contiguous and in order of creation, and a range of
-- creation times is one range of scores in each group. A set is the part of a scope with one class:
-- {key, base}; the rank of an item in it is its score less the base, the score at which the class begins.
-- A span is {first group, last group, from, to}: groups are priority * 16 + complexity, times are ms since
-- RANK_EPOCH.
-- owns: none
local classes = require 'classes'
local index = require 'index'

local CLASS_SIZE, GROUP_SIZE, NO_COMPLEXITY = classes.CLASS_SIZE, classes.GROUP_SIZE, classes.NO_COMPLEXITY

local ranges = {}

local LAST_GROUP = 2 * 16 + NO_COMPLEXITY

-- The non-empty sets of some scopes ('*' for everything) and classes (a text of letters): {key, base, size}; and their
-- sizes' sum.
function ranges.sets(run, scopes_asked, class_list)
  local sets, total = {}, 0
  for _, scope in ipairs(scopes_asked[1] == '*' and index.EVERYTHING or scopes_asked) do
    local key = run.keys.ranked .. scope
    for letter in string.gmatch(class_list, '.') do
      local base = classes.class_of_letter(letter) * CLASS_SIZE
      local size = redis.call('ZCOUNT', key, base, base + CLASS_SIZE - 1)
      if size > 0 then sets[#sets + 1] = {key = key, base = base, size = size} end
      total = total + size
    end
  end
  return sets, total
end

-- The sets of the narrowest of some offers {condition that it answers, scopes}, or of that of a number, their sizes'
-- sum, and the number of the offer; `choice` = 0 for the narrowest.
function ranges.narrowest(run, offers, class_list, choice)
  local sets, total, narrowest = nil, math.huge, choice
  for n, offer in ipairs(offers) do
    if choice == 0 or choice == n then
      local found, size = ranges.sets(run, offer[2], class_list)
      if size < total then sets, total, narrowest = found, size, n end
    end
  end
  return sets, total, narrowest
end

-- Whether a span has all creation times, so that its groups are one range of ranks.
function ranges.is_whole(span)
  return span[3] == 0 and span[4] == GROUP_SIZE - 1
end

-- Whether a span has all items of a class.
function ranges.is_everything(span)
  return ranges.is_whole(span) and span[1] <= 0 and span[2] >= LAST_GROUP
end

-- Whether an item of this score lies within a span, whatever its class.
function ranges.contains(span, score)
  local first, last, from, to = unpack(span)
  local group, age = math.floor(score % CLASS_SIZE / GROUP_SIZE), score % GROUP_SIZE
  return group >= first and group <= last and age >= from and age <= to
end

return ranges
