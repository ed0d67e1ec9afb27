--[[
purpose:   Ends the live claim on an item in place of its holder, for operators.
guarantee: In one step the claim ends, its end is in the item's history, and the item goes to a parked call that wants
           it. Later writes with the fence of the ended claim are refused, also while nobody claims the item anew.
args:      request run.events_max run.terms id fence reason detail author kind
           fence = of the only claim that is to be ended, 0: any; reason = handed_back or failed, which makes it an
           attempt on an item in work or review; detail = why, for people; author = packed {actor, verification};
           kind = what the author is
reply:     EndedClaim (store/end_claim.py)
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local change = require 'change'
local claims = require 'claims'
local items = require 'items'
local transitions = require 'transitions'

return function(run, request, id, fence, reason, detail, author, kind)
  return change(run, request, {}, function()
    local item, only = items.load(run, id), tonumber(fence)
    if not item then return {items.absence_reason(id), '', 0, 0} end
    claims.notice_expiry(run, item)
    if not claims.is_live(run, item) then return {'not_claimed', '', item.fence or 0, item.role} end
    if only > 0 and only ~= item.fence then return {'stale_fence', item.holder, item.fence, item.role} end
    local agent, ended, signed = item.holder, item.fence, cmsgpack.unpack(author)
    local by = {summary = detail, actor = signed[1], verification = signed[2]}
    transitions.write(run, item, item.role, 'end_claim', item.lb, by)
    items.save(run, item)
    claims.release(run, item, reason, detail, kind)
    item.fence = math.max(ended + 1, run.now)
    items.save_record(run, item)
    return {'ended', agent, ended, item.role}
  end)
end
