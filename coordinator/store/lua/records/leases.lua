-- Who holds a work item, for other toolsets than the items', which owns the data: item_record.lua there has the layout
-- of the record that is read here. A claim is live until it expires, and the fence only rises, so both together tell
-- whether a claim seen earlier is still in force. Nothing is changed: expired claims stay as they are.
local leases = {}

local SCORE_BYTES, FENCE_AT, LENGTHS_AT, TEXTS_AT = 7, 20, 44, 47 -- positions in the record

-- {holder, expires, fence, live}, holder false where nobody has claimed it; nil: no such item.
function leases.of(run, item)
  local record = redis.call('HGET', run.keys.item .. item, 'w')
  if not record then return nil end
  if #record == SCORE_BYTES then return {holder = false, expires = 0, fence = 0, live = false} end
  local fence, expires = struct.unpack('>I6I6', record, FENCE_AT)
  if expires == 0 then return {holder = false, expires = 0, fence = fence, live = false} end
  local label_bytes, entry_bytes = struct.unpack('>I2B', record, LENGTHS_AT)
  local holder = string.sub(record, TEXTS_AT + label_bytes + entry_bytes)
  return {holder = holder, expires = expires, fence = fence, live = expires > run.now}
end

return leases
