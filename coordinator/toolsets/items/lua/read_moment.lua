--[[
purpose:   Plain reads for the audit.
guarantee: All of them see one moment; nothing is changed.
args:      reads
           reads = packed list of {command, key without the project's prefix, further arguments ...}
reply:     list of {replies of each command}
errors:    none
--]]
local READS = {
  EXISTS = 1, GET = 1, HEXISTS = 1, HGET = 1, HGETALL = 1, HKEYS = 1, HMGET = 1, HSTRLEN = 1, TIME = 1, ZSCORE = 1,
}
local replies = {}
for n, read in ipairs(cmsgpack.unpack(reads)) do
  if not READS[read[1]] then return redis.error_reply('ERR only reads are allowed here') end
  if read[1] == 'TIME' then
    replies[n] = redis.call('TIME')
  else
    replies[n] = redis.call(read[1], KEYS[1] .. read[2], unpack(read, 3))
  end
end
return cmsgpack.pack(replies)
