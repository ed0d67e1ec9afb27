--[[
purpose:   Lists questions of agents that were answered, the last answer first.
guarantee: Changes nothing. Reads at most `limit`. Texts are as they are now.
args:      after limit text_most
           after = the entry of the last one of the page before, '' for the first; text_most = longer answers are left
           out (bytes)
reply:     {entry after which the next page begins or '', list of _AnsweredRow (store/agents/questions.py)}
errors:    none
--]]
local answered = require 'answered'
local items = require 'items'
local read = require 'read'

-- Fields of a note of an item; none: it has no such note.
local function note_of(run, id, key, ...)
  local entry = redis.call('HGET', run.keys.notes .. id, key)
  return unpack(entry and redis.call('HMGET', run.keys.note .. string.sub(entry, 1, 32), ...) or {})
end

return function(run, after, limit, text_most)
  return read(run, function()
    local rows, following = answered.page(run, 'question', after, limit)
    for _, row in ipairs(rows) do
      local id, number = row[1], row[2]
      local item = items.load(run, id)
      local text, by, verification = note_of(run, id, 'answer-' .. number, 'b', 'a', 'v')
      local asker = note_of(run, id, 'question-' .. number, 'a')
      if by and by ~= '' then row[4], row[5] = by, verification end
      row[8] = item and items.title_of(run, item) or false
      row[9], row[10] = text and #text <= tonumber(text_most) and text or '', asker or ''
    end
    return {following, rows}
  end)
end
