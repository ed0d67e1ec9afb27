-- Items that require capabilities of the agent that takes them: `rq` of items.lua, in order, separated by
-- commas.
-- Each set of them is one of the sets of items that are apart (apart.lua).
--   requirements  how many items require a set
-- owns: requirements
local requirements = {}

local SETS_MAX = 500 -- per project: an agent with capabilities compares all of them

-- Whether an agent with these capabilities ('' or nil: none) can serve a set (nil: nothing is required).
function requirements.is_met(set, capabilities)
  if not set then return true end
  local named = ',' .. (capabilities or '') .. ','
  if string.find(named, ',' .. set .. ',', 1, true) then return true end -- one capability, or neighbours
  for capability in string.gmatch(set, '[^,]+') do
    if not string.find(named, ',' .. capability .. ',', 1, true) then return false end
  end
  return true
end

-- The sets that an agent can serve, as a list; nil if there are none.
function requirements.served_by(run, capabilities)
  if not capabilities or capabilities == '' then return nil end
  local list = {}
  for _, set in ipairs(redis.call('HKEYS', run.keys.requirements)) do
    if requirements.is_met(set, capabilities) then list[#list + 1] = set end
  end
  table.sort(list)
  return list[1] and list
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

return requirements
