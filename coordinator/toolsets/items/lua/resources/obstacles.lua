-- What claims by id take of resources, and live ones when what they need changes; and whether they can. A live claim on
-- an item that has not ended holds all that the item demands: so no two work on the same exclusive key.
-- owns: none
local claims = require 'claims'
local classes = require 'classes'
local expiry = require 'expiry'
local fairness = require 'fairness'
local resources = require 'resources'

local obstacles = {}

local SWEEP_MAX = 200 -- expired claims put back
local HELD_MAX = 10000 -- characters of what a claim holds, above which it takes nothing further
local POLL_MS = 1000 -- when to ask again, if nobody knows when what is held comes back

-- The first node at which demands cannot be met now, as `fairness.busy_node`. What a claim that is `renewed` holds is
-- no obstacle to more along the same path, but counts against capacities.
local function busy_node(run, item, text, agent, renewed)
  local busy, wait = fairness.busy_node(run, item, text, agent)
  if busy or not (renewed and item.rh) then return busy, wait end
  return resources.exceeded_node(run, item.rh, text)
end

-- Demands (a text) that can be met now; else nil, after how many ms to ask again, and which of them cannot. An item
-- that is ready is passed over then.
local function available(run, item, text, agent, renewed)
  local busy, wait = busy_node(run, item, text, agent, renewed)
  if busy then -- perhaps by claims that have expired
    claims.notice_expiry(run, item, item.holder ~= agent)
    expiry.sweep(run, SWEEP_MAX)
    busy, wait = busy_node(run, item, text, agent, renewed)
  end
  if not busy then return text end
  if item.rs and classes.READY_CLASSES[item.class] then
    fairness.pass_item(run, item)
    fairness.record(run)
  end
  return nil, wait or POLL_MS, fairness.busy_ones(run, item, text, agent)
end

-- What of further demands is not among those of a text: of a key that is there, the exclusive units beyond its own; nil
-- for nothing.
local function beyond(text, further)
  local own, list = {}, {}
  for mode, units, key in string.gmatch(text or '', '(%l)(%d+):([^,]+)') do
    own[key] = (own[key] or 0) + (mode == 'x' and tonumber(units) or 0)
  end
  for mode, units, key in string.gmatch(further or '', '(%l)(%d+):([^,]+)') do
    local more = mode == 'x' and units - (own[key] or 0) or own[key] and 0 or 1
    if more > 0 then list[#list + 1] = string.format('%s%d:%s', mode, more, key) end
  end
  return list[1] and table.concat(list, ',')
end

-- What a claim of an agent would take of resources for an item, nil: nothing; or nil, after how many ms to ask again,
-- and what of it is busy. `renews` = whether it renews one, then it takes `further` demands alone.
function obstacles.taken(run, item, agent, renews, further)
  local text = beyond(renews and (item.rh or '') or item.rs, further)
  if not renews and item.rs then text = text and item.rs .. ',' .. text or item.rs end
  if not text then return end
  if renews and #(item.rh or '') > HELD_MAX then return nil, POLL_MS, text end
  return available(run, item, text, agent, renews)
end

-- The same for what the live claim on an item does not hold of these demands (a text, nil: of none), without which it
-- cannot go on; nil also without such a claim.
function obstacles.missing(run, item, demanded)
  local held = demanded and demanded ~= item.rh and classes.is_held(item)
  if held and item.expires > run.now then return obstacles.taken(run, item, item.holder, true, demanded) end
end

-- The live claim on an item takes what it does not hold of what the item demands; if that is not free, it ends. Returns
-- whether it goes on. To be called before the item is reopened by a change of another one, too.
function obstacles.hold(run, item)
  claims.notice_expiry(run, item)
  local missing, wait = obstacles.missing(run, item, item.rs)
  if wait then claims.release(run, item, 'handed_back', '', 'resources') end
  resources.take_further(run, item, missing)
  return not wait
end

return obstacles
