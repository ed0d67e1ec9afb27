-- Agents: the item that each holds, and a record of each that claimed, renewed or waited in the last day.
--   agents      agent -> the item whose claim it has, live or lapsed
--               RECORD .. agent -> its record; no agent has such a name, because names are UTF-8
--   agent_seen  agents with a record by when they were last seen (ms)
--   agent_attempts  agent with a record -> its attempts (attempts.lua), 0 if missing
-- A record is a text: when the agent was last seen (ms, 13 digits), what it is (a letter of its kind, then v if its
-- identity was verified, else -), its capabilities (in order, separated by commas), a blank, and of the last claim that
-- it has parked the request, a blank, and since when (ms). It is written only if it says something new, or is older
-- than FRESH_MS; reading it costs nothing, because the agent's item is read with it.
-- In a call: by name, the agents that are loaded.
-- owns: agents agent_seen agent_attempts
local clock = require 'clock'
local remembered = require 'remembered'

local agents = {}

local RECORD = '\255'
local SEEN_DIGITS = 13
local FRESH_MS = 10000
local KEPT_MS = 86400000 -- agents not seen for longer are forgotten
local KEPT_MAX = 10000 -- agents; of more, those not seen for longest are forgotten
local FORGET_MAX = 10 -- at a time; a call adds one at most
local KNOWN_MAX = 200

-- The parts of a record behind the time, which many agents have in common: known_as, capabilities, request, since.
local parts_of = remembered(KNOWN_MAX, function(text)
  return {string.match(text, '^(%D.)(%S*) (%S*) (%d*)$')}
end)

-- An agent: item (false if it holds none), and of its record seen, known_as, capabilities, request, since (nil or ''
-- without one). The same table for all code of the call.
function agents.load(run, agent)
  local read = run[agents] or {}
  run[agents] = read
  local known = read[agent]
  if known then return known end
  local item, record = unpack(redis.call('HMGET', run.keys.agents, agent, RECORD .. agent))
  known = {item = item, seen = nil, known_as = '', capabilities = '', request = '', since = ''}
  if record then
    known.seen = tonumber(string.sub(record, 1, SEEN_DIGITS))
    local parts = parts_of(string.sub(record, SEEN_DIGITS + 1))
    known.known_as, known.capabilities, known.request, known.since = unpack(parts)
  end
  read[agent] = known
  return known
end

-- The record of an agent as stored; false if there is none.
function agents.record_of(run, agent)
  return redis.call('HGET', run.keys.agents, RECORD .. agent)
end

-- The item that an agent holds, false if it holds none.
function agents.item_of(run, agent)
  local known = run[agents] and run[agents][agent]
  if known then return known.item end
  return redis.call('HGET', run.keys.agents, agent)
end

-- Records which item an agent holds; nil: none.
function agents.set_item(run, agent, id)
  local known = run[agents] and run[agents][agent]
  if known then known.item = id or false end
  if id then
    redis.call('HSET', run.keys.agents, agent, id)
  else
    redis.call('HDEL', run.keys.agents, agent)
  end
end

-- Forgets agents that were not seen for long.
local function forget(run)
  local seen = run.keys.agent_seen
  local gone = redis.call('ZRANGEBYSCORE', seen, '-inf', run.now - KEPT_MS, 'LIMIT', 0, FORGET_MAX)
  local over = redis.call('ZCARD', seen) - KEPT_MAX
  if not gone[1] and over > 0 then gone = redis.call('ZRANGE', seen, 0, math.min(over, FORGET_MAX) - 1) end
  if not gone[1] then return end
  local records = {}
  for n, agent in ipairs(gone) do
    records[n], run[agents][agent] = RECORD .. agent, nil
  end
  redis.call('ZREM', seen, unpack(gone))
  redis.call('HDEL', run.keys.agents, unpack(records))
  redis.call('HDEL', run.keys.agent_attempts, unpack(gone))
end

local function write(run, agent, known)
  local record = clock.whole(run.now) .. known.known_as .. known.capabilities
  redis.call('HSET', run.keys.agents, RECORD .. agent, record .. ' ' .. known.request .. ' ' .. known.since)
  redis.call('ZADD', run.keys.agent_seen, run.now, agent)
  known.seen = run.now
  forget(run)
end

-- Records that an agent is here. `who` = what it is, and if it names capabilities in this call '=' and these; else
-- those named last still hold. Returns the agent as `agents.load` does.
function agents.meet(run, agent, who)
  local known, known_as = agents.load(run, agent), string.sub(who, 1, 2)
  local capabilities = #who > 2 and string.sub(who, 4) or known.capabilities
  local fresh = known.seen and math.abs(run.now - known.seen) < FRESH_MS
  if fresh and known.known_as == known_as and known.capabilities == capabilities then return known end
  known.known_as, known.capabilities = known_as, capabilities
  write(run, agent, known)
  return known
end

-- Counts an attempt of an agent.
function agents.count_attempt(run, agent)
  if redis.call('ZSCORE', run.keys.agent_seen, agent) then redis.call('HINCRBY', run.keys.agent_attempts, agent, 1) end
end

-- Records that an agent that `agents.meet` knows has parked a claim.
function agents.park(run, agent, request_id)
  local known = agents.load(run, agent)
  known.request, known.since = request_id, clock.whole(run.now)
  write(run, agent, known)
end

return agents
