--[[
purpose:   The keys that the fleet signs tokens with; makes the first one, and another when the newest is old.
guarantee: However many processes ask at once, all get the same keys. A key is dropped only when `keep` newer ones
           are there.
args:      id secret rotate_ms keep
           id, secret = random text for a new key, used only if one is due
reply:     rows {id, secret}, newest first
errors:    none
full:      reading; a key is made once in a long time
--]]
-- @include keys
-- @include clock
local rows = {}
local held = redis.call('HGETALL', K_SIGNING_KEYS)
for n = 1, #held, 2 do
  local made, key = string.match(held[n + 1], '^(%d+):(%x+)$')
  if made then rows[#rows + 1] = {held[n], key, tonumber(made)} end
end
local function newer(a, b)
  if a[3] ~= b[3] then return a[3] > b[3] end
  return a[1] > b[1]
end
table.sort(rows, newer)
local now = server_time()
if #rows == 0 or now - rows[1][3] >= tonumber(rotate_ms) then
  redis.call('HSET', K_SIGNING_KEYS, id, whole(now) .. ':' .. secret)
  table.insert(rows, 1, {id, secret, now})
end
local reply = {}
for n, row in ipairs(rows) do
  if n <= tonumber(keep) + 1 then
    reply[n] = {row[1], row[2]}
  else
    redis.call('HDEL', K_SIGNING_KEYS, row[1])
  end
end
return cmsgpack.pack(reply)
