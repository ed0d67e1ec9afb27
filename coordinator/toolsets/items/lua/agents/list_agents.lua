--[[
purpose:   Lists agents for people, with the items that they hold: all of them, those that hold one, or those that wait.
guarantee: A consistent snapshot of a page. All agents, of which there are at most KEPT_MAX (agents.lua), come
           from their index; of claims and parked calls, LOOKED_MAX are looked at.
args:      list part offset limit
           list = seen: all, last seen first; holding: those with a live claim, the one held longest first; waiting:
           those with a parked claim, the one that waits longest first; part = what their names contain, '' for any
reply:     AgentPage (store/agents/presence.py)
errors:    none
--]]
local agent_rows = require 'agent_rows'
local claim_ends = require 'claim_ends'
local items = require 'items'
local read = require 'read'
local rows = require 'rows'
local waiters = require 'waiters'

local LOOKED_MAX = 2000

local LISTS = {}

function LISTS.seen(run)
  return redis.call('ZREVRANGE', run.keys.agent_seen, 0, -1), false
end

local function before(one, other)
  if one.since ~= other.since then return one.since < other.since end
  return one.agent < other.agent
end

local function names_of(entries)
  table.sort(entries, before)
  local names = {}
  for n, entry in ipairs(entries) do names[n] = entry.agent end
  return names
end

function LISTS.holding(run)
  local live = '(' .. run.now
  local leases, last, entries = run.keys.leases, claim_ends.LIVE_MAX, {}
  local found = redis.call('ZRANGEBYSCORE', leases, live, last, 'LIMIT', 0, LOOKED_MAX)
  for _, id in ipairs(found[1] and redis.call('HMGET', run.keys.agents, unpack(found)) or {}) do
    local record = id and redis.call('HGET', run.keys.item .. id, 'w')
    if record then
      local item = {id = id}
      items.unpack_record(item, record)
      entries[#entries + 1] = {agent = item.holder, since = item.first_claimed_at}
    end
  end
  return names_of(entries), #found == LOOKED_MAX
end

-- The order of arrival of parked claims is that of the times at which they were parked.
function LISTS.waiting(run)
  local entries, looked = {}, 0
  for _, queue in ipairs(redis.call('ZRANGE', run.keys.waiting, 0, LOOKED_MAX - 1)) do
    local parked = redis.call('ZRANGE', run.keys.queue .. queue, 0, LOOKED_MAX - looked - 1, 'WITHSCORES')
    for n = 1, #parked, 2 do
      local agent, ends = unpack(redis.call('HMGET', run.keys.waiter .. parked[n], 'a', 'u'))
      if agent and tonumber(ends) > run.now then
        entries[#entries + 1] = {agent = agent, since = tonumber(parked[n + 1])}
      end
    end
    looked = looked + #parked / 2
    if looked >= LOOKED_MAX then break end
  end
  return names_of(entries), looked >= LOOKED_MAX
end

local function containing(list, part)
  if part == '' then return list end
  local found = {}
  for _, name in ipairs(list) do
    if string.find(string.lower(name), part, 1, true) then found[#found + 1] = name end
  end
  return found
end

return function(run, list, part, offset, limit)
  return read(run, function()
    local names, more = LISTS[list](run)
    local found, page, held = containing(names, string.lower(part)), {}, {}
    for n = offset + 1, math.min(offset + limit, #found) do page[#page + 1] = found[n] end
    local shown = agent_rows(run, page)
    for n, row in ipairs(shown) do held[n] = row[5] ~= '' and rows.of(run, row[5]) or false end
    local entries = {}
    for n, name in ipairs(page) do entries[n] = 'a' .. name end
    local used = entries[1] and redis.call('HMGET', run.keys.usage, unpack(entries)) or {}
    local live = claim_ends.count(run, run.now)
    return {
      run.now, redis.call('ZCARD', run.keys.agent_seen), live, waiters.count(run), #found, more, shown, held, used,
    }
  end)
end
