--[[
purpose:   Reads the entries after a position of a project's event stream, and all that tells whether entries before
           them are missing.
guarantee: All of one moment. Changes nothing.
args:      after count ids...
           after = id of an entry, 0-0 before the first; count = 0: no entries; ids = ids of items, flows,
           sessions or gateway instances
reply:     _Reply (position.py)
errors:    none
--]]
local position = require 'position'
local read = require 'read'

local function what_is(run, id)
  local score, parent = unpack(redis.call('HMGET', run.keys.item .. id, 'w', 'pa'))
  if score then return parent or 'root' end
  local kind, creator, roles = unpack(redis.call('HMGET', run.keys.run .. id, 'o', 'u', 'ro'))
  if kind then return kind end
  if creator then return '[' .. cjson.encode(creator) .. ',' .. (roles or '[]') .. ']' end
  return redis.call('EXISTS', run.keys.session .. id) == 1 and 'session' or ''
end

return function(run, after, count, ids)
  return read(run, function()
    local key, known = run.keys.events, {}
    local facts = position.facts(run)
    local first = facts['first-entry']
    local found = redis.call('XRANGE', key, after, after)[1] ~= nil
    local entries = tonumber(count) > 0 and redis.call('XRANGE', key, '(' .. after, '+', 'COUNT', count) or {}
    for n, id in ipairs(ids) do known[n] = what_is(run, id) end
    return {position.history(), position.last(facts), first and first[1] or '',
      (facts['entries-added'] or 0) > (facts['length'] or 0), found, entries, known}
  end)
end
