--[[
purpose:   Reads the rows of a search's page, once its order is known.
guarantee: Items that no longer exist or no longer match are left out.
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
local fields, test, field = compile_conditions(ask.conditions, now)
local score_at, claim_at = field('w'), field('h')
local classes = {}
for letter in string.gmatch(ask.classes, '.') do classes[class_of_letter(letter)] = true end

local function meets(id, values)
  local score = tonumber(values[score_at])
  if not score or not classes[math.floor(score / CLASS_SIZE)] then return false end
  local group, age = math.floor(score % CLASS_SIZE / GROUP_SIZE), score % GROUP_SIZE
  if group < first or group > last or age < from or age > to then return false end
  return (test(values, id, created_of(score)))
end

local rows, paths, claimed = {}, {}, {}
for _, id in ipairs(cmsgpack.unpack(ids)) do
  local values = redis.call('HMGET', K_ITEM .. id, unpack(fields))
  if meets(id, values) then
    local row = short_row(id)
    rows[#rows + 1] = row
    paths[#rows] = ancestors == '1' and path_to(row[2]) or {}
    claimed[#rows] = claim_status(values[claim_at], now) == 'claimed'
  end
end
return cmsgpack.pack({rows, paths, claimed})
