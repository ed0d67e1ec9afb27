-- @include keys
-- Who holds a work item. For scripts of other toolsets than the items', which owns what is read here (see
-- item.lua there): `h` is packed, the fence, and while there is a claim, when it expires, was placed and was first
-- placed (in ms), and the trusted id of its holder. A claim is live while its expiry lies ahead, and a fence only
-- rises, so both together tell whether a claim that somebody saw earlier is still the one. Nothing is changed:
-- expired claims stay as they are.

-- {holder, expires, fence, live}, holder false where nobody has claimed it; nil: no such item.
local function lease_of(item, now)
  local found = redis.call('HMGET', K_ITEM .. item, 'w', 'h')
  if not found[1] then return nil end
  local claim = found[2] or ''
  local fence = #claim > 0 and struct.unpack('>I4', claim) or 0
  if #claim <= 4 then return {holder = false, expires = 0, fence = fence, live = false} end
  local expires = struct.unpack('>I6', claim, 5)
  return {holder = string.sub(claim, 23), expires = expires, fence = fence, live = expires > now}
end
