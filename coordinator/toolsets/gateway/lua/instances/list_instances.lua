--[[
purpose:   Lists instances by their last change, the last one first.
guarantee: Changes nothing. Looks at no more than 500 instances, so with a filter a page may be shorter.
args:      definition state status after limit
           definition, state and status (r running, e ended) = only those, '' for any; after = the position of the page
           before, '' for the first
reply:     InstancePage (store/listing.py)
errors:    none
--]]
local read = require 'read'
local recent = require 'recent'

local LOOKED_AT = 500
-- See instances.lua.
local FIELDS = {'n', 'z', 's', 'v', 'x', 'u', 't', 'd', 'ct', 'c', 'cs'}

local function row_of(run, entry, found)
  local definition, state, status, version, outcome, creator, started, deadline, transition, operation, since =
    unpack(found)
  local open = {}
  for id in string.gmatch(redis.call('HGET', run.keys.gate_data .. entry.id, 'o') or '', '%S+') do
    open[#open + 1] = id
  end
  return {entry.id, definition, state, status, tonumber(version), outcome or '', creator or '', tonumber(started),
    tonumber(deadline or 0), transition or '', operation or '', tonumber(since or 0), open, entry.at}
end

return function(run, definition, state, status, after, limit)
  return read(run, function()
    limit = tonumber(limit)
    local filtered = definition .. state .. status ~= ''
    local entries, position = recent.page(run.keys.gate_index, {0}, after, filtered and LOOKED_AT or limit)
    local rows = {}
    for n, entry in ipairs(entries) do
      local found = redis.call('HMGET', run.keys.run .. entry.id, unpack(FIELDS))
      if found[1] and (definition == '' or found[1] == definition) and (state == '' or found[2] == state)
          and (status == '' or found[3] == status) then
        rows[#rows + 1] = row_of(run, entry, found)
        if #rows == limit and n < #entries then
          position = recent.position(entry)
          break
        end
      end
    end
    return {run.now, position, rows}
  end)
end
