-- @include claims
-- Releases claims of an agent: `packed` = list of {id, fence or 0}. Returns {outcome, id} of each.
local function release_claims(packed, agent, events_max, now)
  local results = {}
  for n, entry in ipairs(cmsgpack.unpack(packed)) do
    local id, fence = entry[1], entry[2]
    local item, outcome = load_item_partly(id), 'success'
    if not item then
      outcome = absence_reason(id)
    elseif item.holder ~= agent then
      outcome = 'not_claimed_by_you'
    elseif fence > 0 and fence ~= item.fence then
      outcome = 'stale_fence'
    else
      release_claim(item, events_max, now)
    end
    results[n] = {outcome, id}
  end
  return results
end
