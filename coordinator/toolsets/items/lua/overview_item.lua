--[[
purpose:   Reads one item in full, with the counts of its children and the newest of them.
guarantee: One consistent view; bounded by `limit`.
args:      id limit
reply:     {full view, counts by role code, rows of children}
errors:    NOT_FOUND
--]]
-- @include merge
-- @include rows
-- @include tallies
-- @include view
local item = load_item(id)
if not item then return redis.error_reply('FLEET NOT_FOUND') end
local list = {}
for n, child in ipairs(newest_of('p' .. id, tonumber(limit))) do list[n] = short_row(child) end
return cmsgpack.pack({full_view(item), (count_by_role(id)), list})
