--[[
purpose:   Reads one item in full, with the counts of its children and the newest of them.
guarantee: A consistent snapshot; bounded by `limit`.
args:      id limit
reply:     {the item, counts by role code, its children}: View and ShortView (store/query.py)
errors:    NOT_FOUND
--]]
local items = require 'items'
local merges = require 'merges'
local read = require 'read'
local tallies = require 'tallies'
local views = require 'views'

return function(run, id, limit)
  return read(run, function()
    local item = items.load(run, id)
    if not item then return redis.error_reply('FLEET NOT_FOUND') end
    local list = {}
    for n, child in ipairs(merges.newest_of(run, 'p' .. id, tonumber(limit))) do list[n] = views.short(run, child) end
    return {views.full(run, item), (tallies.by_role(run, id)), list}
  end)
end
