--[[
purpose:   Reads the events of one flow, the last one first, for people.
guarantee: Changes nothing. Looks at `limit` entries of the project's stream at most.
args:      id before since limit
           before = the id of an entry, '(' .. id, or '+'; since = the id of an entry or a time in ms
reply:     {the last entry looked at or '' if there are no more, list of FlowEvent (store/progress.py)}
errors:    none
--]]
local read = require 'read'

return function(run, id, before, since, limit)
  return read(run, function()
    local entries = redis.call('XREVRANGE', run.keys.events, before, since, 'COUNT', limit)
    local found = {}
    for _, entry in ipairs(entries) do
      local flat = entry[2]
      if flat[4] == id then
        local fields = {}
        for n = 1, #flat, 2 do fields[flat[n]] = flat[n + 1] end
        found[#found + 1] = {entry[1], fields.k, fields.n or '', fields.f or '', fields.a or '', fields.why or ''}
      end
    end
    local last = entries[#entries]
    return {last and #entries == tonumber(limit) and last[1] or '', found}
  end)
end
