-- @include claims
-- Releases {id, fence or 0} ... for an agent. Returns {outcome, id} of each.
local function release_claims(packed, agent, events_max, now)
  local results = {}
  for n, entry in ipairs(cmsgpack.unpack(packed)) do
    local item = load_item_partly(entry[1])
    local outcome = 'success'
    if not item then
      outcome = absence_reason(entry[1])
    elseif item.holder ~= agent then
      outcome = 'not_claimed_by_you'
    elseif entry[2] > 0 and entry[2] ~= item.fence then
      outcome = 'stale_fence'
    else
      release_claim(item, events_max, now)
    end
    results[n] = {outcome, entry[1]}
  end
  return results
end
