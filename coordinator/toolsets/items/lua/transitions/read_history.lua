--[[
purpose:   Lists the transitions of an item, newest first, a page at a time.
guarantee: One lookup for each transition; one that is shown names the one before it, so no other items' are read.
args:      id from count
           from = the entry to begin with, '' for the last one; count = how many at most
reply:     History (store/history.py)
errors:    NOT_FOUND
--]]
local items = require 'items'
local read = require 'read'
local views = require 'views'

return function(run, id, from, count)
  return read(run, function()
    local item, most = items.load(run, id), tonumber(count)
    if not item then return redis.error_reply('FLEET NOT_FOUND') end
    local list, entries, before = views.transitions(run, item, from ~= '' and from or nil, most)
    return {list, entries, #list == most and before or '', #list < most and before ~= nil}
  end)
end
