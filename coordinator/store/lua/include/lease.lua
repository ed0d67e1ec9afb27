-- @include keys
-- Who holds a work item. For scripts of rooms other than that of the items, which own what they read here
-- (see item.lua there): `cb` trusted id of the holder, `cx` expiry in ms, `f` fence; gone when released.
-- A claim is live while its expiry lies ahead, and a fence only rises, so both together tell whether a
-- claim that somebody saw earlier is still the one. Nothing is changed: expired claims stay as they are.

-- {holder, expires, fence, live}, holder false where nobody has claimed it; nil: no such item.
local function lease_of(item, now)
  local found = redis.call('HMGET', K_ITEM .. item, 'k', 'cb', 'cx', 'f')
  if not found[1] then return nil end
  local expires = tonumber(found[3] or 0)
  return {holder = found[2], expires = expires, fence = tonumber(found[4] or 0), live = found[2] and expires > now}
end
