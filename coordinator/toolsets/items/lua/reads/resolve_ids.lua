--[[
purpose:   Finds the items whose ids begin with each of some hex prefixes (at least four digits).
guarantee: Ids are kept in buckets by their first four digits, in order; at most ten matches per prefix.
args:      prefixes
           prefixes = packed list of lower-case hex
reply:     lists of Match (rules/ids.py)
errors:    none
--]]
local items = require 'items'
local read = require 'read'

local MATCHES_MAX = 10 -- per prefix

local function matches_of(run, prefix)
  local bucket, rest = string.sub(prefix, 1, 4), string.sub(prefix, 5)
  local key, last = run.keys.prefixes .. bucket, rest .. 'g' -- after every hex digit
  local matches = {}
  for n, tail in ipairs(redis.call('ZRANGEBYLEX', key, '[' .. rest, '[' .. last, 'LIMIT', 0, MATCHES_MAX)) do
    local item = items.load(run, bucket .. tail)
    matches[n] = {item.id, items.title_of(run, item)}
  end
  return matches
end

return function(run, prefixes)
  return read(run, function()
    local reply = {}
    for n, prefix in ipairs(cmsgpack.unpack(prefixes)) do reply[n] = matches_of(run, prefix) end
    return reply
  end)
end
