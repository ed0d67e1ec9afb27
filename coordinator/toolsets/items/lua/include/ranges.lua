-- @include index
-- Where in the ranked index a search looks. Ranks order by priority, complexity and age, so the items of
-- one priority and complexity (a group) stand together and in order of creation, and a range of creation
-- times is one range of ranks in each group. A span is {first group, last group, from, to}: groups are
-- priority * 256 + complexity, times are ms since RANK_EPOCH.

local GROUP = 2 ^ 41
local ALL_CLASSES = 'qwrbQWRB1234tT'
local EVERYTHING = {0, 2 * 256 + NO_COMPLEXITY, 0, GROUP - 1}

-- The sorted sets of some scopes and classes that have members: {key, class, size}; and their sizes' sum.
local function ranked_sets(scopes_asked, classes)
  local sets, total = {}, 0
  for _, scope in ipairs(scopes_asked) do
    for class in string.gmatch(classes, '.') do
      local key = index_key(scope, class)
      local size = redis.call('ZCARD', key)
      if size > 0 then sets[#sets + 1] = {key = key, class = class, size = size} end
      total = total + size
    end
  end
  return sets, total
end

-- Whether a span has all creation times, so that its groups are one range of ranks.
local function is_whole(span)
  return span[3] == 0 and span[4] == GROUP - 1
end

-- The lowest score of a set at or above `score`, or nil.
local function score_from(key, score)
  return tonumber(redis.call('ZRANGEBYSCORE', key, whole(score), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end
