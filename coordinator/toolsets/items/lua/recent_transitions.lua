--[[
purpose:   Lists role changes since a time, newest first, except those of deleted items.
guarantee: Reads at most `count` entries of the stream a run.
args:      since before count
           since = ms, inclusive; before = '+', or '(' and the entry where the run before ended
reply:     {the entry where this run ended or '', list of {item, {from, to, trigger, at, summary, actor, verification}}}
errors:    none
--]]
-- @include keys
local entries = redis.call('XREVRANGE', K_TRANSITIONS, before, since, 'COUNT', count)
local reply, exists = {}, {}
for _, entry in ipairs(entries) do
  local item_id, from, to, trigger, _, _, summary, actor, verification = unpack(cmsgpack.unpack(entry[2][2]))
  if exists[item_id] == nil then exists[item_id] = redis.call('EXISTS', K_ITEM .. item_id) == 1 end
  if exists[item_id] then
    local at = tonumber(string.match(entry[1], '%d+'))
    reply[#reply + 1] = {item_id, {from, to, trigger, at, summary, actor, verification}}
  end
end
local last = #entries == tonumber(count) and entries[#entries][1] or ''
return cmsgpack.pack({last, reply})
