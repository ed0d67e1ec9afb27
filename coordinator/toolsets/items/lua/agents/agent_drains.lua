-- Drains of agents: names whose agents are to finish what they hold and to claim no more. A name stands for the agent
-- and for those whose names continue it after a '/'.
--   agent_drains  name -> since when (ms); BEGUN -> when the last one began, as long as there is any
-- In a call: whether there are any.
-- owns: none
local absence = require 'absence'

local agent_drains = {}

local BEGUN = '' -- no agent has this name

-- Names under which an agent can be drained: its own, and what precedes each '/' of it.
local function names_of(agent)
  local names, at = {agent}, string.find(agent, '/', 1, true)
  while at do
    if at > 1 then names[#names + 1] = string.sub(agent, 1, at - 1) end
    at = string.find(agent, '/', at + 1, true)
  end
  return names
end

-- The name under which an agent is drained; nil if it is not.
function agent_drains.of(run, agent)
  local key = run.keys.agent_drains
  if run[agent_drains] == nil then run[agent_drains] = not run.absent[key] and redis.call('EXISTS', key) == 1 end
  if not run[agent_drains] then return nil end
  local names = names_of(agent)
  for n, since in ipairs(redis.call('HMGET', key, unpack(names))) do
    if since then return names[n] end
  end
end

-- Rows {name, since}.
function agent_drains.rows(run)
  local rows, flat = {}, redis.call('HGETALL', run.keys.agent_drains)
  for n = 1, #flat, 2 do
    if flat[n] ~= BEGUN then rows[#rows + 1] = {flat[n], tonumber(flat[n + 1])} end
  end
  return rows
end

-- How many there are.
function agent_drains.count(run)
  return math.max(redis.call('HLEN', run.keys.agent_drains) - 1, 0) -- without BEGUN
end

-- When the last drain in force began (ms), 0 if there is none.
function agent_drains.begun(run)
  return tonumber(redis.call('HGET', run.keys.agent_drains, BEGUN) or 0)
end

-- What operations look for that ask for the drain of their caller (change.lua), and for nothing else.
agent_drains.looked_for = absence.of_keys({'waiting', 'owed', 'paused', 'agent_drains'})
agent_drains.BEGUN = BEGUN

return agent_drains
