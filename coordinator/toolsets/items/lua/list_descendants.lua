--[[
purpose:   Lists the items below an item, level by level.
guarantee: One consistent view, so an item that is being moved is listed once. Ends soon after `most`.
args:      id most
reply:     list of ids
errors:    none
--]]
-- @include keys
local ids, at = {}, 0
repeat
  for _, child in ipairs(redis.call('ZRANGE', K_RANKED .. 'p' .. (ids[at] or id), 0, most)) do
    ids[#ids + 1] = child
  end
  at = at + 1
until not ids[at] or #ids > tonumber(most)
return cmsgpack.pack(ids)
