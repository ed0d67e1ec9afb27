-- Who holds a work item, for other toolsets than the items', which owns the data (items.lua there). The field `h` is
-- packed: the fence and, while there is a claim, when it expires, was placed and was first placed (in ms), and the
-- trusted id of its holder. A claim is live until it expires, and the fence only rises, so both together tell whether a
-- claim seen earlier is still in force. Nothing is changed: expired claims stay as they are.
local leases = {}

-- {holder, expires, fence, live}, holder false where nobody has claimed it; nil: no such item.
function leases.of(run, item)
  local found = redis.call('HMGET', run.keys.item .. item, 'w', 'h')
  if not found[1] then return nil end
  local claim = found[2] or ''
  local fence = #claim > 0 and struct.unpack('>I6', claim) or 0
  if #claim <= 6 then return {holder = false, expires = 0, fence = fence, live = false} end
  local expires = struct.unpack('>I6', claim, 7)
  return {holder = string.sub(claim, 25), expires = expires, fence = fence, live = expires > run.now}
end

return leases
