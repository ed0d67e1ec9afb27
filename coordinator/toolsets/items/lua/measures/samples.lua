-- Samples of a project's items, for charts. Two lists of rows as JSON, the last one last: a row per 10 s of the last
-- hour, and a row per minute of the last day. Where nothing has changed there is no row.
--   row  {begin of its time (s), items by role code: 5 numbers, then what happened in its time: items created, items
--        that became terminal, claims that ended with the item finished, that were released, that expired, attempts,
--        losers}
-- Created and terminal are differences of counts, so deleted and reopened items are taken off.
-- owns: samples
local classes = require 'classes'

local QUEUE, BLOCKED, TERMINAL = classes.QUEUE, classes.BLOCKED, classes.TERMINAL

local samples = {}

local HOUR, DAY = {step = 10, rows = 360, seconds = 3600}, {step = 60, rows = 1440, seconds = 86400}
local IDLE_MS = 3600 * 1000
local ROLES = BLOCKED - QUEUE + 1
local SUMS = 7
local HOLD_ONE = 2 ^ 44 -- as in holds.lua

local function last_row(run, list)
  local row = redis.call('LINDEX', run.keys.samples .. list.step, -1)
  return row and cjson.decode(row)
end

-- Whether anything happened in the project within the last hour.
local function is_active(run)
  local event = redis.call('XREVRANGE', run.keys.events, '+', '-', 'COUNT', 1)[1]
  return event and tonumber(string.match(event[1], '^%d+')) > run.now - IDLE_MS
end

local function total(row)
  local sum = 0
  for n = 2, ROLES + 1 do sum = sum + row[n] end
  return sum
end

-- What happened since the row `before`, in the order of a row; `ended` as in holds.lua.
local function sums_since(before, row, ended)
  local by_kind = {c = 0, r = 0, e = 0, a = 0, l = 0}
  for n = 1, #ended, 2 do
    local kind, value = string.sub(ended[n], 1, 1), tonumber(ended[n + 1])
    if kind == 'l' then value = value % HOLD_ONE elseif kind ~= 'a' then value = math.floor(value / HOLD_ONE) end
    if by_kind[kind] then by_kind[kind] = by_kind[kind] + value end
  end
  local done = TERMINAL - QUEUE + 2
  return {
    before and math.max(0, total(row) - total(before)) or 0,
    before and math.max(0, row[done] - before[done]) or 0,
    by_kind.c, by_kind.r, by_kind.e, by_kind.a, by_kind.l,
  }
end

-- Adds a sample to the list: to its last row, if that is of the same time.
local function add(run, list, last, row, sums)
  local key, now = run.keys.samples .. list.step, math.floor(run.now / 1000)
  local begin, same = now - now % list.step, false
  if last and last[1] >= begin then begin, same = last[1], true end
  row[1] = begin
  for n = 1, SUMS do row[ROLES + 1 + n] = sums[n] + (same and last[ROLES + 1 + n] or 0) end
  if same then
    redis.call('LSET', key, -1, cjson.encode(row))
  else
    redis.call('RPUSH', key, cjson.encode(row))
    redis.call('LTRIM', key, -list.rows, -1)
  end
  redis.call('EXPIRE', key, list.seconds)
end

-- Keeps a sample: the items by role code, and the claims that have ended since the last one.
function samples.note(run, counts, ended)
  local hour, day = last_row(run, HOUR), nil
  local row, changed = {0, unpack(counts)}, ended[1] ~= nil
  if not hour then day = last_row(run, DAY) end
  local before = hour or day
  if not before and not changed and not is_active(run) then return end
  for n = 2, ROLES + 1 do changed = changed or row[n] ~= (before and before[n] or 0) end
  if not changed then return end
  local sums = sums_since(before, row, ended)
  add(run, HOUR, hour, row, sums)
  add(run, DAY, day or last_row(run, DAY), row, sums)
end

return samples
