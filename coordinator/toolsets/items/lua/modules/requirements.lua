-- Items that require capabilities of the agent that takes them: `rq` of modules/items.lua, in order, separated by
-- commas.
-- Selectors of other agents have to pass them by, however many there are. So in the ranked index the available ones are
-- in a class that no selector searches (modules/classes.lua), and each set of required capabilities has scopes of its
-- own, in which they are in their real class: 'R' .. set .. ' ' and a scope, where '*' stands for everything. A
-- selector searches the scopes of the sets that its agent can serve, besides the others.
--   requirements  the sets that items require
local requirements = {}

local SETS_MAX = 500 -- per project: an agent with capabilities compares all of them

function requirements.scope(set, scope)
  return 'R' .. set .. ' ' .. scope
end

-- Whether an agent with these capabilities ('' or nil: none) can serve a set (nil: nothing is required).
function requirements.is_met(set, capabilities)
  if not set then return true end
  local named = ',' .. (capabilities or '') .. ','
  for capability in string.gmatch(set, '[^,]+') do
    if not string.find(named, ',' .. capability .. ',', 1, true) then return false end
  end
  return true
end

-- The sets that an agent can serve, as a list; nil if there are none.
function requirements.served_by(run, capabilities)
  if not capabilities or capabilities == '' then return nil end
  local list = {}
  for _, set in ipairs(redis.call('SMEMBERS', run.keys.requirements)) do
    if requirements.is_met(set, capabilities) then list[#list + 1] = set end
  end
  table.sort(list)
  return list[1] and list
end

-- The scopes of an item's set that it belongs to.
function requirements.scopes_of(item)
  local list, set = {}, item.rq
  if not set then return list end
  list[1] = requirements.scope(set, '*')
  if item.pa then list[2] = requirements.scope(set, 'p' .. item.pa) end -- no selector asks for roots alone
  for tag in string.gmatch(item.g or '', '[^,%s]+') do list[#list + 1] = requirements.scope(set, 'g' .. tag) end
  if item.y then list[#list + 1] = requirements.scope(set, 'y' .. item.y) end
  return list
end

-- Adds or moves an item in these, and optionally another one with the same scopes.
function requirements.add(run, item, other)
  for _, scope in ipairs(requirements.scopes_of(item)) do
    if other then
      redis.call('ZADD', run.keys.ranked .. scope, item.score, item.id, other.score, other.id)
    else
      redis.call('ZADD', run.keys.ranked .. scope, item.score, item.id)
    end
  end
end

-- Records that there will be an item that requires a set. Returns false if there are too many sets.
function requirements.note(run, set)
  local key = run.keys.requirements
  if redis.call('SISMEMBER', key, set) == 1 then return true end
  if redis.call('SCARD', key) >= SETS_MAX then return false end
  redis.call('SADD', key, set)
  return true
end

-- Whether there is room for the sets of new items (modules/creation.lua).
function requirements.have_room(run, specs)
  local sets, new = {}, 0
  for _, spec in ipairs(specs) do
    local set = spec[20]
    if set ~= '' and not sets[set] then
      sets[set] = true
      new = new + 1 - redis.call('SISMEMBER', run.keys.requirements, set)
    end
  end
  return new == 0 or redis.call('SCARD', run.keys.requirements) + new <= SETS_MAX
end

-- Forgets a set that no item requires any more.
function requirements.forget(run, set)
  local unused = redis.call('EXISTS', run.keys.ranked .. requirements.scope(set, '*')) == 0
  if unused then redis.call('SREM', run.keys.requirements, set) end
end

return requirements
