-- The item that was created first of those that agents are offered in the queue: ready, below no item that somebody
-- holds or whose budget is spent, and what it demands is free; none while the project's budget is spent. What single
-- agents lack (capabilities, budgets) or are drained for does not count. At most LOOKED_MAX are looked at.
-- owns: none
local budgets = require 'budgets'
local classes = require 'classes'
local fairness = require 'fairness'
local index = require 'index'
local items = require 'items'
local selectors = require 'selectors'

local APART, CLASS_SIZE, GROUP_SIZE, STATES = classes.APART, classes.CLASS_SIZE, classes.GROUP_SIZE, classes.STATES
local QUEUE, READY = classes.QUEUE, classes.READY

local LOOKED_MAX = 100

-- Takes the next entry of a group, oldest first: sets its id (nil at the end) and creation. Returns its score.
local function take(head)
  local entry = redis.call('ZRANGEBYSCORE', head.key, head.first, head.last, 'WITHSCORES', 'LIMIT', head.taken, 1)
  head.taken, head.id, head.created = head.taken + 1, entry[1], entry[1] and classes.created_of(entry[2])
  return entry[2]
end

-- Adds the groups of a scope's items of a class to `heads`, each with its first entry. They are ordered by priority and
-- complexity first: the first of each such group is its oldest.
local function add_groups(run, scope, class, heads)
  local first, last = class * CLASS_SIZE, (class + 1) * CLASS_SIZE - 1
  while first <= last do
    local head = {key = run.keys.ranked .. scope, first = first, last = last, taken = 0}
    local score = take(head)
    if not score then break end
    first = (math.floor(score / GROUP_SIZE) + 1) * GROUP_SIZE
    head.last, heads[#heads + 1] = first - 1, head
  end
end

-- When it was created (ms), and its id; 0 and '' if there is none.
return function(run)
  local heads = {}
  if budgets.of_caller(run, false) then return 0, '' end
  for _, scope in ipairs(index.EVERYTHING) do
    for _, state in ipairs({READY, APART}) do add_groups(run, scope, QUEUE * STATES + state, heads) end
  end
  for _ = 1, LOOKED_MAX do
    local oldest = nil
    for _, head in ipairs(heads) do
      if head.id and (not oldest or head.created < oldest.created) then oldest = head end
    end
    if not oldest then break end
    local item = items.load(run, oldest.id)
    local kept = selectors.is_shielded(run, item) or item.rs and fairness.busy_node(run, item, item.rs)
    if not kept then return oldest.created, oldest.id end
    take(oldest)
  end
  return 0, ''
end
