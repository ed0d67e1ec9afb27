-- @include claims
-- Releases {id, fence or 0} ... for an agent. Returns {outcome, id} of each.
local function release_all(packed, agent, cap, now)
  local results = {}
  for n, entry in ipairs(cmsgpack.unpack(packed)) do
    local it = glance(entry[1])
    local outcome = 'success'
    if not it then
      outcome = absent(entry[1])
    elseif it.cb ~= agent then
      outcome = 'not_claimed_by_you'
    elseif entry[2] > 0 and entry[2] ~= it.f then
      outcome = 'stale_fence'
    else
      release(it, cap, now)
    end
    results[n] = {outcome, entry[1]}
  end
  return results
end
