--[[
purpose:   Reads one item in full, with its ancestors if wanted.
guarantee: A consistent snapshot.
args:      id with_ancestors
reply:     {View (store/query.py), Path (store/base.py)}
errors:    NOT_FOUND
--]]
local items = require 'items'
local read = require 'read'
local views = require 'views'

return function(run, id, with_ancestors)
  return read(run, function()
    local item = items.load(run, id)
    if not item then return redis.error_reply('FLEET NOT_FOUND') end
    return {views.full(run, item), with_ancestors == '1' and views.ancestors(run, item.pa) or {}}
  end)
end
