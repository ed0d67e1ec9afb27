-- The record of a claim as an item stores it (field h of modules/items.lua): its fence, and while there is a claim,
-- live or lapsed, when it expires, was placed and was first placed (ms), and its holder, the trusted id of an agent.
local claim_record = {}

local CLAIM_FORMAT, FENCE_FORMAT, FENCE_BYTES = '>I6I6I6I6', '>I6', 6
local EXPIRES_AT, HOLDER_AT = 7, 25 -- positions in the record

function claim_record.pack(fence, expires, claimed_at, first_claimed_at, holder)
  return struct.pack(CLAIM_FORMAT, fence, expires, claimed_at, first_claimed_at) .. holder
end

-- The record of an unclaimed item.
function claim_record.pack_fence(fence)
  return struct.pack(FENCE_FORMAT, fence)
end

-- Sets the fields of an item from its record.
function claim_record.unpack(item, record)
  if #record > FENCE_BYTES then
    item.fence, item.expires, item.claimed_at, item.first_claimed_at = struct.unpack(CLAIM_FORMAT, record)
    item.holder = string.sub(record, HOLDER_AT)
  else
    item.fence = struct.unpack(FENCE_FORMAT, record)
  end
end

-- 'unclaimed', 'claimed' or 'expired', from a record or nil.
function claim_record.status(run, record)
  if not record or #record == FENCE_BYTES then return 'unclaimed' end
  return struct.unpack('>I6', record, EXPIRES_AT) > run.now and 'claimed' or 'expired'
end

-- The holder of a live claim, from a record or nil; nil if there is none.
function claim_record.live_holder(run, record)
  return claim_record.status(run, record) == 'claimed' and string.sub(record, HOLDER_AT) or nil
end

return claim_record
