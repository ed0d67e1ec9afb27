--[[
purpose:   Reads one item in full, with its ancestors if wanted.
guarantee: One consistent view.
args:      id ancestors
reply:     {full view, ancestors {id, title, depth}}
errors:    NOT_FOUND
--]]
-- @include view
-- @include ancestors
local item = load_item(id)
if not item then return redis.error_reply('FLEET NOT_FOUND') end
return cmsgpack.pack({full_view(item), ancestors == '1' and ancestors_of(item) or {}})
