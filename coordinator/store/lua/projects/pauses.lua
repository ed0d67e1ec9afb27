-- What of a project is paused: an operator has said that no new work of a kind begins.
--   paused  CLAIMS -> packed {since when (ms), who, why}
-- owns: none
local pauses = {}

local CLAIMS = 'claims'
local RETRY_MS = 10000

-- The pause of claims; nil: they are not paused. Renewals, notes and releases go on.
function pauses.of_claims(run)
  local key = run.keys.paused
  local packed = not run.absent[key] and redis.call('HGET', key, CLAIMS)
  return packed and cmsgpack.unpack(packed) or nil
end

-- A claim that is refused because of a pause, in the form of replies.
function pauses.refusal(pause)
  return {'project_paused', '', RETRY_MS, 0, 0, {paused = pause}}
end

function pauses.is_refusal(claim)
  return claim[1] == 'project_paused'
end

pauses.CLAIMS = CLAIMS

return pauses
