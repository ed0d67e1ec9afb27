-- Why an item that is claimed is not ready to be worked on: why no selector would find it.
-- owns: none
local classes = require 'classes'
local graph = require 'graph'
local held_back = require 'held_back'
local items = require 'items'
local requirements = require 'requirements'

local readiness = {}

local BLOCKED = classes.BLOCKED
local BLOCKERS_NAMED = 20

-- An item with its score, claim and what says whether it is ready, for less than `items.load`; nil if there is none.
function readiness.load(run, id)
  local values = not run.loaded[id] and redis.call('HMGET', run.keys.item .. id, 'w', 'nb', 'nt', 'to')
  if not values then return run.loaded[id] end
  if not values[1] then return nil end
  local item = {id = id, nb = values[2] or nil, nt = values[3] or nil, to = values[4] or nil}
  items.unpack_record(item, values[1])
  return item
end

-- What keeps an item from all agents, by name, and how many or until when (ms); nil: nothing does.
local function obstacle(run, item)
  if item.nt and not item.depth then item = items.load(run, item.id) end -- `readiness.load` reads less
  local ends = tonumber(item.nt or 0)
  if held_back.is_quarantined(item) then return 'quarantined', 0 end
  if item.role == BLOCKED then return 'blocked', 0 end
  if held_back.is_template(item) then return 'template', 0 end
  if item.nb then return 'dependencies', tonumber(item.nb) end
  if ends <= run.now then return nil end -- nothing does, or nobody has noticed the end yet
  return held_back.not_before(item) and 'not_before' or 'backoff', ends
end

-- The reasons, as `Waiting` of store/claims.py; nil: it is ready for its holder.
function readiness.why_not(run, item)
  local assignee = item.to and requirements.other_assignee(item, item.holder)
  if not (item.nt or item.nb or assignee) and item.role ~= BLOCKED then return nil end
  local why, detail = obstacle(run, item)
  local whys = {why and {why, detail} or nil}
  if assignee then whys[#whys + 1] = {'assigned', assignee} end
  if not whys[1] then return nil end
  return {whys, item.nb and graph.unsatisfied_blockers(run, item, BLOCKERS_NAMED) or {}}
end

return readiness
