--[[
purpose:   Plain reads for the audit.
guarantee: All of them see one moment; nothing is changed.
args:      reads
           reads = packed list of {command, key without the project's prefix, further arguments ...}
reply:     list of {replies of each command}; claims of items (field h) come in hex digits
errors:    none
--]]
local READS = {
  EXISTS = 1, GET = 1, HEXISTS = 1, HGET = 1, HGETALL = 1, HKEYS = 1, HMGET = 1, HSTRLEN = 1, TIME = 1,
  ZMSCORE = 1, ZRANGEBYSCORE = 1, ZSCORE = 1,
}
local replies = {}

local function hex(s)
  return (string.gsub(s, '.', function(c) return string.format('%02x', string.byte(c)) end))
end

local function with_claims_readable(read, reply)
  if string.sub(read[2], 1, 2) ~= 'i:' then return reply end
  if read[1] == 'HGET' and read[3] == 'h' and reply then return hex(reply) end
  for n = 1, read[1] == 'HGETALL' and #reply or 0, 2 do
    if reply[n] == 'h' then reply[n + 1] = hex(reply[n + 1]) end
  end
  return reply
end

for n, read in ipairs(cmsgpack.unpack(reads)) do
  if not READS[read[1]] then return redis.error_reply('ERR only reads are allowed here') end
  if read[1] == 'TIME' then
    replies[n] = redis.call('TIME')
  else
    replies[n] = with_claims_readable(read, redis.call(read[1], KEYS[1] .. read[2], unpack(read, 3)))
  end
end
return cmsgpack.pack(replies)
