--[[
purpose:   Reads the rows of a search's page, once its order is known.
guarantee: Items that no longer exist or no longer match are left out.
args:      asked ids with
           asked as for scan_items.lua; ids = packed list; with as for search_page.lua
reply:     {rows, ancestors of each, whether each is claimed}: ShortView (store/query.py) and Path (store/base.py)
errors:    none
--]]
local classes = require 'classes'
local conditions = require 'conditions'
local item_record = require 'item_record'
local ranges = require 'ranges'
local read = require 'read'
local views = require 'views'

local CLASS_SIZE = classes.CLASS_SIZE

-- Returns meets(id, values), which tells whether an item still matches the search; the fields for the values; and the
-- index of the item's record among these.
local function compile(run, asked)
  local fields, test, field = conditions.compile(run, asked.conditions)
  local record_at = field('w')
  local class_set = {}
  for letter in string.gmatch(asked.classes, '.') do class_set[classes.class_of_letter(letter)] = true end
  local function meets(id, values)
    local score = item_record.score(values[record_at])
    if not score or not class_set[math.floor(score / CLASS_SIZE)] then return false end
    return ranges.contains(asked.span, score) and (test(values, id, classes.created_of(score)))
  end
  return meets, fields, record_at
end

return function(run, asked, ids, with)
  return read(run, function()
    local meets, fields, record_at = compile(run, cmsgpack.unpack(asked))
    local shown, paths, claimed = {}, {}, {}
    for _, id in ipairs(cmsgpack.unpack(ids)) do
      local values = redis.call('HMGET', run.keys.item .. id, unpack(fields))
      if meets(id, values) then
        local row = views.short(run, id)
        if string.find(with, 'd', 1, true) then views.add_details(run, row) end
        shown[#shown + 1] = row
        paths[#shown] = string.find(with, 'a', 1, true) and views.ancestors(run, row[4].pa) or {}
        claimed[#shown] = item_record.claim_status(run, values[record_at]) == 'claimed'
      end
    end
    return {shown, paths, claimed}
  end)
end
