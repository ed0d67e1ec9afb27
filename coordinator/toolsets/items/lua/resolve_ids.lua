--[[
purpose:   Finds the items whose ids begin with each of some hex prefixes (at least four digits).
guarantee: Ids are kept in buckets by their first four digits, in order; at most ten matches a prefix.
args:      prefixes
           prefixes = packed list of lower-case hex
reply:     list of lists of {id, title}
errors:    none
--]]
-- @include texts
local reply = {}
for n, prefix in ipairs(cmsgpack.unpack(prefixes)) do
  local bucket, rest = string.sub(prefix, 1, 4), string.sub(prefix, 5)
  local matches = redis.call('ZRANGEBYLEX', K_PREFIXES .. bucket, '[' .. rest, '[' .. rest .. 'g', 'LIMIT', 0, 10)
  reply[n] = {}
  for m, tail in ipairs(matches) do
    local item = load_item(bucket .. tail)
    reply[n][m] = {item.id, title_of(item)}
  end
end
return cmsgpack.pack(reply)
