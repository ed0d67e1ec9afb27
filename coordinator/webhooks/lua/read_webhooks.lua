--[[
purpose:   Reads the records of webhooks.
guarantee: All of one moment.
args:      names...
reply:     of each WebhookRecord (records.py), in order; of one that has none with an empty project
errors:    none
--]]
local read = require 'read'
local webhooks = require 'webhooks'

return function(run, names)
  return read(run, function()
    local records = {}
    for n, name in ipairs(names) do records[n] = webhooks.record(run, name) end
    return records
  end)
end
