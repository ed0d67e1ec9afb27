--[[
purpose:   Role changes since a time, newest first, without those of items that were deleted.
guarantee: Reads at most `count` entries of the stream a run.
args:      since before count
           since = ms, inclusive; before = '+', or '(' and the entry where the run before ended
reply:     {the entry where this run ended or '', list of {item, from, to, trigger, at, actor, verification}}
errors:    none
--]]
-- @include keys
local entries = redis.call('XREVRANGE', K_TRANSITIONS, before, since, 'COUNT', count)
local reply, exists = {}, {}
for _, entry in ipairs(entries) do
  local f = {}
  for n = 1, #entry[2], 2 do f[entry[2][n]] = entry[2][n + 1] end
  if exists[f.i] == nil then exists[f.i] = redis.call('EXISTS', K_ITEM .. f.i) == 1 end
  if exists[f.i] then
    local at = tonumber(string.match(entry[1], '%d+'))
    reply[#reply + 1] = {f.i, tonumber(f.f), tonumber(f.t), f.g, at, f.a, f.v}
  end
end
local last = #entries == tonumber(count) and entries[#entries][1] or ''
return cmsgpack.pack({last, reply})
