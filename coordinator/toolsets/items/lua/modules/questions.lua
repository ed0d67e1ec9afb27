-- Questions of agents, each a note question-<n> of an item that was blocked with it. `questions` has the items, scored
-- by when they were asked about: the question is open as long as the item has not changed its role since. Entries that
-- are not open any more are taken out a few at a time, so that no other operation has to do it.
local classes = require 'classes'
local items = require 'items'

local questions = {}

local MOST = 10000
local LOOKED_AT = 4

-- The item if its question of this time (ms) is open, or nil.
function questions.open_item(run, id, at)
  local item = items.load(run, id)
  return item and item.role == classes.BLOCKED and item.role_changed_at == at and item or nil
end

-- Notes that the item has just been blocked with a question.
function questions.add(run, item)
  redis.call('ZADD', run.keys.questions, run.now, item.id)
  local oldest = redis.call('ZRANGE', run.keys.questions, 0, LOOKED_AT - 1, 'WITHSCORES')
  for n = 1, #oldest, 2 do
    local id = oldest[n]
    if not questions.open_item(run, id, tonumber(oldest[n + 1])) then redis.call('ZREM', run.keys.questions, id) end
  end
  redis.call('ZREMRANGEBYRANK', run.keys.questions, 0, -MOST - 1)
end

return questions
