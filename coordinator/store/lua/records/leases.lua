-- Who holds a work item, for other toolsets than the items', which owns the data: its record is read here
-- (coordinator/store/record_layout.py). A claim is live until it expires, and the fence only rises, so both together
-- tell whether a claim seen earlier is still in force. Nothing is changed: expired claims stay as they are.
-- owns: none
local record_layout = require 'record_layout'

local leases = {}

local RECORD, SCORE_BYTES, TEXTS_AT = record_layout.RECORD, record_layout.SCORE_BYTES, record_layout.TEXTS_AT

-- {holder, expires, fence, live}, holder false where nobody has claimed it; nil: no such item.
function leases.of(run, item)
  local record = redis.call('HGET', run.keys.item .. item, 'w')
  if not record then return nil end
  if #record == SCORE_BYTES then return {holder = false, expires = 0, fence = 0, live = false} end
  local _, _, _, fence, expires, _, _, label_bytes, entry_bytes = struct.unpack(RECORD, record)
  if expires == 0 then return {holder = false, expires = 0, fence = fence, live = false} end
  local holder = string.sub(record, TEXTS_AT + label_bytes + entry_bytes)
  return {holder = holder, expires = expires, fence = fence, live = expires > run.now}
end

return leases
