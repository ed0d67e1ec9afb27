-- The ready item of the role queue that was created first.
local classes = require 'classes'
local index = require 'index'

local APART, CLASS_SIZE, GROUP_SIZE, STATES = classes.APART, classes.CLASS_SIZE, classes.GROUP_SIZE, classes.STATES
local QUEUE, READY = classes.QUEUE, classes.READY

-- The oldest item of a scope's items of a class, if it was created before `oldest`. They are ordered by priority and
-- complexity first: the first of each such group is its oldest.
local function older(run, scope, class, oldest, id)
  local key = run.keys.ranked .. scope
  local first = class * CLASS_SIZE
  local last = first + CLASS_SIZE - 1
  while first <= last do
    local entry = redis.call('ZRANGEBYSCORE', key, first, last, 'WITHSCORES', 'LIMIT', 0, 1)
    local score = tonumber(entry[2])
    if not score then break end
    if classes.created_of(score) < oldest then oldest, id = classes.created_of(score), entry[1] end
    first = (math.floor(score / GROUP_SIZE) + 1) * GROUP_SIZE
  end
  return oldest, id
end

-- When it was created (ms), and its id; 0 and '' if no item is ready.
return function(run)
  local oldest, id = math.huge, ''
  for _, scope in ipairs(index.EVERYTHING) do
    for _, class in ipairs({QUEUE * STATES + READY, QUEUE * STATES + APART}) do
      oldest, id = older(run, scope, class, oldest, id)
    end
  end
  return oldest < math.huge and oldest or 0, id
end
