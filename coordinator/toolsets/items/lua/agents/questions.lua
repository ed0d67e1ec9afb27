-- Questions of agents, each a note question-<n> of an item that was blocked with it. `questions` has the items, scored
-- by when they were asked about: the question is open as long as the item has not changed its role since. Who answers
-- takes it out; entries of items that were deleted or ended with their children are taken out a few at a time, so that
-- no other operation has to do it. The answers are in `answered` (answered.lua of the store).
-- owns: questions
local answered = require 'answered'
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

-- How many questions were asked about an item. A number under which there is an answer is taken, too, if its question
-- was deleted: that answer would come to be that of the next question.
function questions.count(run, id)
  local key, number = run.keys.notes .. id, 0
  while true do
    local asked = redis.call('HEXISTS', key, 'question-' .. number + 1) == 1
    if not asked and redis.call('HEXISTS', key, 'answer-' .. number + 1) == 0 then return number end
    number = number + 1
  end
end

-- Why no answer to the question of this number can be given: only the last one of an item that is blocked has one to
-- come, the first also if its note was deleted. nil: it can, or there is no such item.
function questions.not_asked(run, id, number)
  local item = items.load(run, id)
  if not item then return nil end
  local asked = number == 1 or redis.call('HEXISTS', run.keys.notes .. id, 'question-' .. number) == 1
  local last = redis.call('HEXISTS', run.keys.notes .. id, 'question-' .. number + 1) == 0
  if item.role ~= classes.BLOCKED or not asked or not last then return 'not_asked' end
end

-- Notes who is about to end the wait of a blocked item by a trigger, if it waits for the answer to a question.
function questions.note_end(run, item, trigger, author)
  local asked = tonumber(redis.call('ZSCORE', run.keys.questions, item.id) or 0)
  if asked ~= item.role_changed_at then return end
  redis.call('ZREM', run.keys.questions, item.id)
  local number = math.max(1, questions.count(run, item.id))
  answered.note(run, 'question', {item.id, number, trigger, author.actor, author.verification})
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
