--[[
purpose:   Lists items that are blocked by a question of an agent, those asked about last first.
guarantee: Changes nothing. Looks at no more than `limit` items; those that have gone on are left out, so a page may be
           shorter.
args:      after limit text_most
           after = the position of the page before, '' for the first; text_most = longer questions are left out (bytes)
reply:     {now, position of the next page or '', list of _OpenRow (store/agents/questions.py)}
errors:    none
--]]
local items = require 'items'
local questions = require 'questions'
local read = require 'read'
local recent = require 'recent'

-- The last question of an item {number, text, bytes, actor, verification}.
local function last_question(run, id, text_most)
  local number = math.max(1, questions.count(run, id))
  local entry = redis.call('HGET', run.keys.notes .. id, 'question-' .. number)
  if not entry then return number, '', 0, '', '' end -- the note was deleted
  local note = run.keys.note .. string.sub(entry, 1, 32)
  local bytes = redis.call('HSTRLEN', note, 'b')
  local fields = {'a', 'v', bytes <= text_most and 'b' or nil}
  local actor, verification, text = unpack(redis.call('HMGET', note, unpack(fields)))
  return number, text or '', bytes, actor or '', verification or ''
end

return function(run, after, limit, text_most)
  return read(run, function()
    local entries, position = recent.page(run.keys.questions, {0}, after, tonumber(limit))
    local rows = {}
    for _, entry in ipairs(entries) do
      local item = questions.open_item(run, entry.id, entry.at)
      if item then
        local number, text, bytes, actor, verification = last_question(run, entry.id, tonumber(text_most))
        local title = items.title_of(run, item) or ''
        rows[#rows + 1] = {entry.id, title, number, text, bytes, actor, verification, entry.at}
      end
    end
    return {run.now, position, rows}
  end)
end
