-- What items require of the agent that takes them: capabilities (`rq` of items.lua, in order, separated by commas), to
-- be the one to whom they are assigned (`to`) or one of its slots, and that what they demand of resources is free for
-- it (demands.lua). Items that require the same capabilities are one of the sets of items that are apart (apart.lua),
-- and so are those that are assigned to one name, where capabilities and resources are looked at one by one.
--   requirements  how many items require a set of capabilities
-- owns: requirements
local absence = require 'absence'
local fairness = require 'fairness'

local requirements = {}

local SHARED = '' -- in place of a set: items that are for everybody
local ASSIGNED = '@' -- the scope of what is assigned and ready; no capability begins so
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

-- The set of what is assigned to a name. With its length, as a name may have any character.
function requirements.set_of_assignee(name)
  return ASSIGNED .. #name .. ':' .. name
end

-- Whether a set is one of these.
function requirements.is_of_assignee(set)
  return string.sub(set, 1, 1) == ASSIGNED
end

-- Under which names an agent finds what is assigned to it: its own, and for a slot that of its owner, else nil.
local function names_of(agent)
  return agent, string.match(agent, '^(.+)/%w[%w._-]*$')
end

-- To whom an assigned item is assigned, if neither to the agent nor to its owner; else nil.
function requirements.other_assignee(item, agent)
  local own, owner = names_of(agent)
  return item.to ~= own and item.to ~= owner and item.to or nil
end

-- For whom a search is: an agent, '' for nobody, nil: not known yet.
local function caller_of(search)
  local caller = search.selector.agent or search.agent
  return caller == false and '' or caller
end

-- Whether sets that require these capabilities ('': none) may have items for a selector.
function requirements.opens(required, selector)
  if selector.assignee then return false end -- nothing there is assigned
  return required == '' or is_met(required, selector.capabilities)
end

-- Why a search (selection.lua) does not get an item that matches its selector else, as held_counts.lua names it; nil:
-- it does, false: it does not ask for it. Without an agent resources do not matter, nor if they are known to be free.
function requirements.against(run, item, search, are_free)
  local agent, assignee, caller = search.agent, search.selector.assignee, caller_of(search)
  if assignee and item.to ~= assignee then return false end
  if item.rq and not is_met(item.rq, search.selector.capabilities) then return 'capabilities' end
  if item.to and not assignee and caller and requirements.other_assignee(item, caller) then return 'assigned' end
  local busy = agent and item.rs and not are_free and fairness.busy_node(run, item, item.rs, agent)
  return busy and 'resources' or nil
end

-- Whether something that is assigned is ready.
function requirements.are_assigned(run)
  local key = run.keys.ranked .. ASSIGNED
  return not run.absent[key] and redis.call('EXISTS', key) == 1
end

-- Notes that something is.
function requirements.note_assigned(run)
  local key = run.keys.ranked .. ASSIGNED
  if run.absent[key] then absence.forget(run, {key}) end
end

-- Whether there may be items that are not for everybody.
function requirements.any(run)
  return redis.call('EXISTS', run.keys.requirements, run.keys.demands, run.keys.ranked .. ASSIGNED) > 0
end

-- The sets of what is assigned to an agent, '' for none.
function requirements.own_sets(agent)
  if agent == '' then return {} end
  local own, owner = names_of(agent)
  return {requirements.set_of_assignee(own), owner and requirements.set_of_assignee(owner)}
end

-- The sets in which a search finds ready items, as a list; nil: in SHARED alone.
function requirements.sets_for(run, search)
  local selector = search.selector
  if selector.assignee then return {requirements.set_of_assignee(selector.assignee)} end
  local none_assigned, capabilities = run.absent[run.keys.ranked .. ASSIGNED], selector.capabilities or ''
  if none_assigned and capabilities == '' then return nil end -- the usual case, for less
  local list = none_assigned and {} or requirements.own_sets(caller_of(search))
  for _, set in ipairs(capabilities ~= '' and redis.call('HKEYS', run.keys.requirements) or {}) do
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

requirements.ASSIGNED = ASSIGNED
requirements.LOOKED_FOR = {'ranked ' .. ASSIGNED}
requirements.SHARED = SHARED

return requirements
