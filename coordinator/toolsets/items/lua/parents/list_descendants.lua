--[[
purpose:   Lists the items below an item, level by level.
guarantee: A consistent snapshot, so a moving item is listed once. Ends soon after `most`.
args:      id most
reply:     list of ids
errors:    none
--]]
local read = require 'read'

return function(run, id, most)
  return read(run, function()
    local ids, at = {}, 0
    repeat
      for _, child in ipairs(redis.call('ZRANGE', run.keys.ranked .. 'p' .. (ids[at] or id), 0, most)) do
        ids[#ids + 1] = child
      end
      at = at + 1
    until not ids[at] or #ids > tonumber(most)
    return ids
  end)
end
