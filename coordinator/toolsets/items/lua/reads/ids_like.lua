--[[
purpose:   Lists items whose ids begin with some hex digits, for clients that complete ids.
guarantee: O(log n) and bounded: from two digits on it reads the buckets of ids that can match (256 at most), with fewer
           the first items of the ranked index, best first, so that some may be left out.
args:      digits most
           digits = lower-case hex, may be empty; most = how many ids to list
reply:     {ids, whether there are or may be more}
errors:    none
--]]
local read = require 'read'

local BEST = 300 -- of each scope
local SCOPES = {'c', 'p'} -- every item once (classes.lua)

-- Adds the ids of the bucket that begin with more digits.
local function add_bucket(run, found, bucket, rest, most)
  local key = run.keys.prefixes .. bucket
  local tails = redis.call('ZRANGEBYLEX', key, '[' .. rest, '[' .. rest .. 'g', 'LIMIT', 0, most + 1 - #found)
  for _, tail in ipairs(tails) do found[#found + 1] = bucket .. tail end
end

local function in_buckets(run, digits, most)
  local found, missing = {}, 4 - #digits
  if missing <= 0 then
    add_bucket(run, found, string.sub(digits, 1, 4), string.sub(digits, 5), most)
    return found
  end
  for n = 0, 16 ^ missing - 1 do
    add_bucket(run, found, digits .. string.format('%0' .. missing .. 'x', n), '', most)
    if #found > most then break end
  end
  return found
end

local function among_best(run, digits, most)
  local found, whole, lists = {}, true, {}
  for n, scope in ipairs(SCOPES) do
    lists[n] = redis.call('ZRANGE', run.keys.ranked .. scope, 0, BEST - 1)
    whole = whole and #lists[n] < BEST
  end
  for n = 1, BEST do
    for _, list in ipairs(lists) do
      local id = list[n]
      if id and string.sub(id, 1, #digits) == digits then found[#found + 1] = id end
    end
    if #found > most then break end
  end
  return found, not whole
end

return function(run, digits, most)
  return read(run, function()
    most = tonumber(most)
    local find = #digits < 2 and among_best or in_buckets
    local found, more = find(run, digits, most)
    more = more or #found > most
    while #found > most do found[#found] = nil end
    return {found, more or false}
  end)
end
