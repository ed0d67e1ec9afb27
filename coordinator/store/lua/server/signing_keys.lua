--[[
purpose:   The keys that the fleet signs tokens with; makes the first one, and another when the newest is old.
guarantee: However many processes ask at once, all get the same keys. A key is dropped only when `keep` newer ones
           are there.
args:      id secret rotate_ms keep
           id, secret = random text for a new key, used only if one is due
reply:     {id, secret} of each, newest first
errors:    none
owns:      signing_keys
full:      it mostly reads; a new key is rare
--]]
local clock = require 'clock'

-- Rows {id, secret, made at in ms}, newest first.
local function held_keys(run)
  local rows, held = {}, redis.call('HGETALL', run.keys.signing_keys)
  for n = 1, #held, 2 do
    local made, secret = string.match(held[n + 1], '^(%d+):(%x+)$')
    if made then rows[#rows + 1] = {held[n], secret, tonumber(made)} end
  end
  table.sort(rows, function(a, b)
    if a[3] ~= b[3] then return a[3] > b[3] end
    return a[1] > b[1]
  end)
  return rows
end

return function(run, id, secret, rotate_ms, keep)
  local rows, reply = held_keys(run), {}
  if #rows == 0 or run.now - rows[1][3] >= tonumber(rotate_ms) then
    redis.call('HSET', run.keys.signing_keys, id, clock.whole(run.now) .. ':' .. secret)
    table.insert(rows, 1, {id, secret, run.now})
  end
  for n, row in ipairs(rows) do
    if n <= tonumber(keep) + 1 then
      reply[n] = {row[1], row[2]}
    else
      redis.call('HDEL', run.keys.signing_keys, row[1])
    end
  end
  return cmsgpack.pack(reply)
end
