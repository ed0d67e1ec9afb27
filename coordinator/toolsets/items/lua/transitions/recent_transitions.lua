--[[
purpose:   Lists role changes since a time, newest first, except those of deleted items.
guarantee: Reads at most `count` entries of the stream a call.
args:      since before count
           since = ms, inclusive; before = '+', or '(' and the entry where the last call ended
reply:     {the entry where this call ended or '', list of RoleChange (store/context.py)}
errors:    none
--]]
local read = require 'read'

return function(run, since, before, count)
  return read(run, function()
    local entries = redis.call('XREVRANGE', run.keys.transitions, before, since, 'COUNT', count)
    local list, exists = {}, {}
    for _, entry in ipairs(entries) do
      local id, from, to, trigger, _, _, summary, actor, verification = unpack(cmsgpack.unpack(entry[2][2]))
      if exists[id] == nil then exists[id] = redis.call('EXISTS', run.keys.item .. id) == 1 end
      if exists[id] then
        local at = tonumber(string.match(entry[1], '%d+'))
        list[#list + 1] = {id, {from, to, trigger, at, summary, actor, verification}}
      end
    end
    return {#entries == tonumber(count) and entries[#entries][1] or '', list}
  end)
end
