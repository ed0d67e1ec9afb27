-- The releases of a call, by the agent itself.
local claims = require 'claims'
local items = require 'items'
local usage = require 'usage'

local releasing = {}

-- Releases claims of an agent: `packed` = list of {id, fence or 0, reason, detail, and what was used, for
-- `usage.add`}. Returns {outcome, id} of each.
function releasing.make(run, packed, agent)
  local results = {}
  for n, entry in ipairs(cmsgpack.unpack(packed)) do
    local id, fence, reason, detail, used = unpack(entry)
    local item, outcome = items.load(run, id), 'success'
    if item then claims.notice_expiry(run, item) end
    if not item then
      outcome = items.absence_reason(id)
    elseif item.holder ~= agent then
      outcome = 'not_claimed_by_you'
    elseif fence > 0 and fence ~= item.fence then
      outcome = 'stale_fence'
    else
      usage.add(run, id, agent, used)
      claims.release(run, item, reason or '', detail or '')
    end
    results[n] = {outcome, id}
  end
  return results
end

return releasing
