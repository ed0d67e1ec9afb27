--[[
purpose:   A page of the direct children of an item.
guarantee: Children that do not change role or claim between pages are listed exactly once.
args:      id after limit
           after = cursor of the page before, or ''
reply:     {ids, cursor for the next page, '' at the end}
errors:    none
--]]
-- @include index
local key, ids, wanted = K_RANKED .. 'p' .. id, {}, tonumber(limit)
local score, last = string.match(after, '^(%d+):(.*)$')
local seen, page = 0, nil
repeat
  page = redis.call('ZRANGEBYSCORE', key, score or '-inf', '+inf', 'WITHSCORES', 'LIMIT', seen, wanted)
  for n = 1, #page, 2 do
    if not score or tonumber(page[n + 1]) > tonumber(score) or page[n] > last then ids[#ids + 1] = page[n] end
  end
  seen = seen + wanted
until ids[1] or #page < 2 * wanted
if #page < 2 * wanted then return cmsgpack.pack({ids, ''}) end
return cmsgpack.pack({ids, whole(page[#page]) .. ':' .. page[#page - 1]})
