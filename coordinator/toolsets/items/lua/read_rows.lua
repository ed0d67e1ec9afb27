--[[
purpose:   The rows of a search's page, once its order is known.
guarantee: Items that are gone or do not meet what was asked any more are left out.
args:      asked ids ancestors
           asked as for scan_items.lua; ids = packed list
reply:     {rows, ancestors of each, whether each is claimed}
errors:    none
--]]
-- @include clock
-- @include ranges
-- @include conditions
-- @include rows

local ask, now = cmsgpack.unpack(asked), server_time()
local first, last, from, to = unpack(ask.span)
local fields, test, field = conditions(ask.conditions, now)
local class_at, priority_at, complexity_at, created_at = field('k'), field('p'), field('c'), field('ca')
local expires_at = field('cx')

local function meets(id, values)
  if not values[class_at] or not string.find(ask.classes, values[class_at], 1, true) then return false end
  local group = values[priority_at] * 256 + (values[complexity_at] or NO_COMPLEXITY)
  local age = values[created_at] - RANK_EPOCH
  if group < first or group > last or age < from or age > to then return false end
  return (test(values, id, tonumber(values[created_at])))
end

local rows, paths, claimed = {}, {}, {}
for _, id in ipairs(cmsgpack.unpack(ids)) do
  local values = redis.call('HMGET', K_ITEM .. id, unpack(fields))
  if meets(id, values) then
    local row = short_row(id)
    rows[#rows + 1] = row
    paths[#rows] = ancestors == '1' and path_to(row[2]) or {}
    claimed[#rows] = claim_status(values[expires_at], now) == 'claimed'
  end
end
return cmsgpack.pack({rows, paths, claimed})
