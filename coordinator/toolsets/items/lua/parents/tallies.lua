-- Counts of an item's direct children, and of all items, from their scores.
-- owns: none
local classes = require 'classes'
local index = require 'index'

local CLASS_SIZE, STATES = classes.CLASS_SIZE, classes.STATES
local BLOCKED, HELD, QUEUE, TERMINAL = classes.BLOCKED, classes.HELD, classes.QUEUE, classes.TERMINAL

local tallies = {}

-- {queue, work, review, terminal, blocked}, and how many of all are in a held class.
function tallies.by_role(run, id)
  local key, counts, held = run.keys.ranked .. 'p' .. id, {0, 0, 0, 0, 0}, 0
  local left = redis.call('ZCARD', key) -- remaining, in further roles
  for role = QUEUE, BLOCKED do
    if left == 0 then break end
    local start = role * STATES * CLASS_SIZE
    local size = redis.call('ZCOUNT', key, start, start + STATES * CLASS_SIZE - 1)
    local first_held = start + HELD * CLASS_SIZE
    if size > 0 then held = held + redis.call('ZCOUNT', key, first_held, first_held + CLASS_SIZE - 1) end
    counts[role + 1], left = size, left - size
  end
  return counts, held
end

-- The items of the project by role code.
function tallies.of_project(run)
  local counts = {}
  for role = QUEUE, BLOCKED do
    local first, last = role * STATES * CLASS_SIZE, (role + 1) * STATES * CLASS_SIZE - 1
    counts[role + 1] = 0
    for _, scope in ipairs(index.EVERYTHING) do
      counts[role + 1] = counts[role + 1] + redis.call('ZCOUNT', run.keys.ranked .. scope, first, last)
    end
  end
  return counts
end

-- {active, expired, unclaimed}, from the result of `tallies.by_role` and `late`: by parent, how many held children
-- have an expired claim that was not put back yet.
function tallies.by_claim(run, id, counts, held, late)
  local all = counts[1] + counts[2] + counts[3] + counts[4] + counts[5]
  local expired = tonumber(redis.call('HGET', run.keys.lapsed, 'p' .. id) or 0)
  local active = held - (late[id] or 0)
  return {active, expired + held - active, all - held - expired}
end

function tallies.count_children(run, id)
  return redis.call('ZCARD', run.keys.ranked .. 'p' .. id)
end

function tallies.first_child(run, id)
  return redis.call('ZRANGE', run.keys.ranked .. 'p' .. id, 0, 0)[1]
end

function tallies.all_children_terminal(run, id)
  local key = run.keys.ranked .. 'p' .. id
  if redis.call('ZCOUNT', key, '-inf', TERMINAL * STATES * CLASS_SIZE - 1) > 0 then return false end
  return redis.call('ZCOUNT', key, BLOCKED * STATES * CLASS_SIZE, '+inf') == 0
end

return tallies
