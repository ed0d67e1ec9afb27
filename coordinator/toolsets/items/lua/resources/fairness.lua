-- Fairness between items that demand resources. An item that is passed over for want of them waits for all of them to
-- be free at the same time, which may never be so while others take them in turn. So after PATIENCE, its resources are
-- reserved for it: they count as held, and what is given back is not taken again by others. It is all or
-- nothing, and not beside a reservation of another item that it conflicts with; so reservations cannot wait for each
-- other. A reservation ends when its item is claimed, or is not ready any more, or when no caller has passed it for
-- FORGOTTEN, so that an item that nobody wants keeps nothing.
--   passed_over  items, and sets (apart.lua) after SET, by since when callers pass them over (ms)
--   reserved     item -> when a caller has passed it last (ms), a blank, what is reserved (demands.lua)
--   rp           of an item: 1 if it may have an entry in these
-- In a call: reserved, once they are read; passed, what it has passed over: {name, item or nil, `best` of a set}.
-- owns: item.rp passed_over reserved
local classes = require 'classes'
local demands = require 'demands'
local fitting = require 'fitting'
local items = require 'items'
local resources = require 'resources'

local fairness = {}

local BLOCKED = classes.BLOCKED
local PATIENCE = 30000
local FORGOTTEN = 60000
local KEPT = 86400000 -- notes of what nobody has passed for longer mean nothing
local RENEWED = 5000 -- a reservation is not written more often
local RESERVED_MAX = 32
local SET = '|'

-- The reservations of a project: item -> {when it was passed last, text}.
function fairness.reserved(run)
  local own = run[fairness] or {}
  run[fairness] = own
  if own.reserved then return own.reserved end
  local reserved, flat = {}, run.absent[run.keys.reserved] and {} or redis.call('HGETALL', run.keys.reserved)
  for n = 1, #flat, 2 do
    local at, text = string.match(flat[n + 1], '^(%d+) (.*)$')
    reserved[flat[n]] = {tonumber(at), text}
  end
  own.reserved = reserved
  return reserved
end

-- Ends the reservation of an item, if it has one.
local function drop(run, id)
  local reserved = fairness.reserved(run)
  local known = reserved[id]
  if not known then return end
  reserved[id] = nil
  redis.call('HDEL', run.keys.reserved, id)
  resources.change(run, known[2], -1)
end

-- Why demands of an item cannot be met for an agent, as `resources.busy_node`. What the agent itself holds and what is
-- reserved for the item are no obstacle.
function fairness.busy_node(run, item, text, agent)
  local less = resources.of_agent(run, agent)
  local own = item.rp and fairness.reserved(run)[item.id]
  if own then less[#less + 1] = own[2] end
  return resources.busy_node(run, demands.nodes_of(text), less)
end

-- The demands of a list that cannot be met one by one; all if they cannot be met together only.
function fairness.busy_ones(run, item, text, agent)
  local list = {}
  for one in demands.each(text) do
    if fairness.busy_node(run, item, one, agent) then list[#list + 1] = one end
  end
  return list[1] and table.concat(list, ',') or text
end

-- Ends all that was noted about an item that is not ready any more, or demands something else.
function fairness.forget(run, item)
  redis.call('ZREM', run.keys.passed_over, item.id, item.as and SET .. item.as or item.id)
  drop(run, item.id)
  redis.call('HDEL', run.keys.item .. item.id, 'rp')
  item.rp = nil
end

-- Ends the reservations of items that nobody has wanted lately.
local function drop_forgotten(run)
  for id, known in pairs(fairness.reserved(run)) do
    if run.now - known[1] > FORGOTTEN then drop(run, id) end
  end
end

-- Reserves for an item what it demands, or renews that.
local function reserve(run, item)
  local reserved = fairness.reserved(run)
  local known = reserved[item.id]
  if known and run.now - known[1] < RENEWED then return end
  if not known then
    local others = {}
    for _, other in pairs(reserved) do others[#others + 1] = other[2] end
    if #others >= RESERVED_MAX or not fitting.suit(run, item.rs, others) then return end
    resources.change(run, item.rs, 1)
  end
  reserved[item.id] = {run.now, item.rs}
  redis.call('HSET', run.keys.reserved, item.id, string.format('%.0f %s', run.now, item.rs))
end

local function pass(run, passed)
  local own = run[fairness] or {}
  run[fairness] = own
  own.passed = own.passed or {}
  own.passed[#own.passed + 1] = passed
end

-- Notes that a caller passes over an item that it could have but for its resources.
function fairness.pass_item(run, item)
  if item.role ~= BLOCKED then pass(run, {item.id, item}) end
end

-- The same of the items of a set with these conditions; `best()` = the best of them for the caller, or nil.
function fairness.pass_set(run, conditions, best)
  pass(run, {SET .. conditions, nil, best})
end

-- Marks items that may have entries.
local function mark(run, item)
  if item.rp then return end
  item.rp = '1'
  redis.call('HSET', run.keys.item .. item.id, 'rp', '1')
end

-- Records what this call has passed over: to be called at its end.
function fairness.record(run)
  local passed, names, new = run[fairness] and run[fairness].passed, {}, {}
  if not passed then return end
  run[fairness].passed = nil
  for n, one in ipairs(passed) do names[n] = one[1] end
  drop_forgotten(run)
  for n, since in ipairs(redis.call('ZMSCORE', run.keys.passed_over, unpack(names))) do
    local item = passed[n][2]
    if not since then
      new[#new + 1], new[#new + 2] = run.now, names[n]
      if item then mark(run, item) end
    elseif run.now - since >= PATIENCE then
      local id = not item and passed[n][3]()
      item = item or id and items.load(run, id)
      if item and item.rs and item.role ~= BLOCKED then
        mark(run, item)
        reserve(run, item)
      end
    end
  end
  if new[1] then
    redis.call('ZREMRANGEBYSCORE', run.keys.passed_over, '-inf', run.now - KEPT)
    redis.call('ZADD', run.keys.passed_over, 'NX', unpack(new))
  end
end

fairness.SET = SET

return fairness
