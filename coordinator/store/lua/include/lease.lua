-- @include keys
-- Who holds a work item. For scripts of rooms other than that of the items, which own what is read here (see
-- item.lua there): `h` is the fence, and while there is a claim, after blanks, when it expires, was placed and was
-- first placed (in ms), and the trusted id of its holder. A claim is live while its expiry lies ahead, and a fence
-- only rises, so both together tell whether a claim that somebody saw earlier is still the one. Nothing is
-- changed: expired claims stay as they are.

-- {holder, expires, fence, live}, holder false where nobody has claimed it; nil: no such item.
local function lease_of(item, now)
  local found = redis.call('HMGET', K_ITEM .. item, 'w', 'h')
  if not found[1] then return nil end
  local claim = found[2] or '0'
  local fence, expires, holder = string.match(claim, '^(%d+) (%d+) %d+ %d+ (.*)$')
  if not fence then return {holder = false, expires = 0, fence = tonumber(claim), live = false} end
  expires = tonumber(expires)
  return {holder = holder, expires = expires, fence = tonumber(fence), live = expires > now}
end
