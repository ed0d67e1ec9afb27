--[[
purpose:   A page of the direct children of an item.
guarantee: Children that do not change role or claim between pages are listed exactly once.
args:      id class offset limit
           class = position in the order of classes, from 1; offset within it
reply:     {ids, next class or 0, next offset}
errors:    none
--]]
-- @include index
local ids, wanted = {}, tonumber(limit)
local keys = {}
each_class('p' .. id, function(key) keys[#keys + 1] = key end)
local at, from = tonumber(class), tonumber(offset)
while at <= #keys and #ids < wanted do
  local page = redis.call('ZRANGE', keys[at], from, from + wanted - #ids - 1)
  for _, child in ipairs(page) do ids[#ids + 1] = child end
  if #ids < wanted then
    at, from = at + 1, 0
  else
    from = from + #page
  end
end
return cmsgpack.pack({ids, at <= #keys and at or 0, from})
