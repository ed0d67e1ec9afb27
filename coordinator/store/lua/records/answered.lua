-- What people were asked in a project and have answered: a stream per kind, answered .. kind, of entries with
--   r the packed row that the operation gives
-- The last MOST of each kind are kept, also when what they are about is gone.
-- owns: answered
local answered = {}

local MOST = 1000 -- MOST_ANSWERED in keys.py

-- Notes an answer that is given by this call.
function answered.note(run, kind, row)
  redis.call('XADD', run.keys.answered .. kind, 'MAXLEN', MOST, '*', 'r', cmsgpack.pack(row))
end

-- A page of rows, the last one first, each followed by its entry and time (ms); and the entry after which the next page
-- begins, '' for none. after = that of the page before, '' for the first.
function answered.page(run, kind, after, limit)
  local rows, last = {}, ''
  local to = after ~= '' and '(' .. after or '+'
  for n, entry in ipairs(redis.call('XREVRANGE', run.keys.answered .. kind, to, '-', 'COUNT', limit)) do
    local row = cmsgpack.unpack(entry[2][2])
    row[#row + 1], row[#row + 2] = entry[1], tonumber(string.match(entry[1], '%d+'))
    rows[n], last = row, entry[1]
  end
  return rows, #rows == tonumber(limit) and last or ''
end

return answered
