-- @include index
-- Where in the ranked index a search looks. Scores order by class, priority, complexity and age, so the items
-- of one class, priority and complexity (a group) stand together and in order of creation, and a range of
-- creation times is one range of scores in each group. A set is the part of a scope that one class takes:
-- {key, base}; the rank of an item in it is its score less the base, the score at which the class begins.
-- A span is {first group, last group, from, to}: groups are priority * 16 + complexity, times are ms since
-- RANK_EPOCH.

local EVERYTHING = {0, 2 * 16 + NO_COMPLEXITY, 0, GROUP_SIZE - 1}

-- The sets of some scopes and classes that have members: {key, base, size}; and their sizes' sum.
local function ranked_sets(scopes_asked, classes)
  local sets, total = {}, 0
  for _, scope in ipairs(scopes_asked) do
    local key = K_RANKED .. scope
    for letter in string.gmatch(classes, '.') do
      local base = class_of_letter(letter) * CLASS_SIZE
      local size = redis.call('ZCOUNT', key, base, base + CLASS_SIZE - 1)
      if size > 0 then sets[#sets + 1] = {key = key, base = base, size = size} end
      total = total + size
    end
  end
  return sets, total
end

-- Whether a span has all creation times, so that its groups are one range of ranks.
local function is_whole(span)
  return span[3] == 0 and span[4] == GROUP_SIZE - 1
end
