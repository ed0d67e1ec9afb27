-- The releases of a call, by the agent itself. They follow its claims, but for those of the item that a new claim gives
-- up: what the agent says of that comes first, else it would be lost.
-- owns: none
local agents = require 'agents'
local claims = require 'claims'
local items = require 'items'
local usage = require 'usage'

local releasing = {}

-- Releases one item; `entry` = {id, fence or 0, reason, detail, and what was used, for `usage.add`}. Returns {outcome,
-- id, whether the fence is an older one}.
local function release(run, entry, agent)
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
  return {outcome, id, item and fence > 0 and fence < (item.fence or 0)}
end

-- Makes those of the releases (packed list of entries) that are about the item whose claim the agent gives up with one
-- on another item; to be called before that is placed. Returns what `releasing.make` is to be given as `made`.
function releasing.give_up(run, packed, agent, id)
  local given_up, made = packed ~= '' and agents.item_of(run, agent), {}
  if not given_up or given_up == id then return made end
  for n, entry in ipairs(cmsgpack.unpack(packed)) do
    if entry[1] == given_up then made[n] = release(run, entry, agent) end
  end
  return made
end

-- Makes the other releases. Returns what is said of each.
function releasing.make(run, packed, agent, made)
  local results = {}
  for n, entry in ipairs(packed ~= '' and cmsgpack.unpack(packed) or {}) do
    results[n] = made and made[n] or release(run, entry, agent)
  end
  return results
end

return releasing
