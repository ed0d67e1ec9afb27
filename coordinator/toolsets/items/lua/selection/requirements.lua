-- What items require of the agent that takes them: capabilities (`rq` of items.lua, in order, separated by commas), and
-- that what they demand of resources is free for it (demands.lua). Each set of capabilities is one of the sets of items
-- that are apart (apart.lua).
--   requirements  how many items require a set of capabilities
-- owns: requirements
local fairness = require 'fairness'

local requirements = {}

local SHARED = '' -- in place of a set: items that are for everybody
local SETS_MAX = 500 -- per project: an agent with capabilities compares all of them

-- Whether an agent with these capabilities ('' or nil: none) can serve a set.
local function is_met(set, capabilities)
  local named = ',' .. (capabilities or '') .. ','
  if string.find(named, ',' .. set .. ',', 1, true) then return true end -- one capability, or neighbours
  for capability in string.gmatch(set, '[^,]+') do
    if not string.find(named, ',' .. capability .. ',', 1, true) then return false end
  end
  return true
end

-- Whether sets that require these capabilities ('': none) may have items for a selector.
function requirements.opens(required, selector)
  return required == '' or is_met(required, selector.capabilities)
end

-- Why a search (selection.lua) does not get an item that matches its selector else, as held_counts.lua names it; nil:
-- it does, false: it does not ask for it. Without an agent resources do not matter, nor if they are known to be free.
function requirements.against(run, item, search, are_free)
  if item.rq and not is_met(item.rq, search.selector.capabilities) then return 'capabilities' end
  local agent = search.agent
  local busy = agent and item.rs and not are_free and fairness.busy_node(run, item, item.rs, agent)
  return busy and 'resources' or nil
end

-- Whether there may be items that are not for everybody.
function requirements.any(run)
  return redis.call('EXISTS', run.keys.requirements, run.keys.demands) > 0
end

-- The sets in which a search finds ready items, as a list; nil: in SHARED alone.
function requirements.sets_for(run, search)
  local capabilities = search.selector.capabilities
  if not capabilities or capabilities == '' or run.absent[run.keys.requirements] then return nil end
  local list = {}
  for _, set in ipairs(redis.call('HKEYS', run.keys.requirements)) do
    if is_met(set, capabilities) then list[#list + 1] = set end
  end
  if not list[1] then return nil end
  table.sort(list)
  table.insert(list, 1, SHARED)
  return list
end

-- Counts an item that will require a set. Returns false if there are too many sets.
function requirements.count(run, set)
  local key = run.keys.requirements
  if redis.call('HEXISTS', key, set) == 0 and redis.call('HLEN', key) >= SETS_MAX then return false end
  redis.call('HINCRBY', key, set, 1)
  return true
end

-- Counts items that do not require a set any more.
function requirements.discount(run, set, items)
  if redis.call('HINCRBY', run.keys.requirements, set, -items) == 0 then
    redis.call('HDEL', run.keys.requirements, set)
  end
end

-- Whether there is room for the sets of new items (creation.lua).
function requirements.have_room(run, specs)
  local sets, new = {}, 0
  for _, spec in ipairs(specs) do
    local set = spec[4].rq
    if set and not sets[set] then
      sets[set] = true
      new = new + 1 - redis.call('HEXISTS', run.keys.requirements, set)
    end
  end
  return new == 0 or redis.call('HLEN', run.keys.requirements) + new <= SETS_MAX
end

requirements.LOOKED_FOR = {'requirements'}
requirements.SHARED = SHARED

return requirements
