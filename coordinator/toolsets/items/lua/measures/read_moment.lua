--[[
purpose:   Plain reads for the audit.
guarantee: One consistent snapshot; changes nothing.
args:      reads
           reads = packed list of {command, key without the project's prefix, further arguments ...}; the command AGENT
           reads the record of an agent, because its field is no text
reply:     list of {replies of each command}; the records of items (field w) come in hex digits
errors:    none
--]]
local agents = require 'agents'
local read = require 'read'

local READS = {
  AGENT = 1, EXISTS = 1, GET = 1, HEXISTS = 1, HGET = 1, HGETALL = 1, HKEYS = 1, HMGET = 1, HSTRLEN = 1,
  SISMEMBER = 1, TIME = 1, XLEN = 1, ZCARD = 1, ZCOUNT = 1, ZMSCORE = 1, ZRANGEBYSCORE = 1, ZSCORE = 1,
}

local function hex(s)
  return (string.gsub(s, '.', function(character) return string.format('%02x', string.byte(character)) end))
end

-- The reply with the record of an item in hex digits.
local function with_readable_record(words, reply)
  local command = words[1]
  if string.sub(words[2], 1, 2) ~= 'i:' then return reply end
  if command == 'HGET' and words[3] == 'w' and reply then return hex(reply) end
  for n = 1, command == 'HGETALL' and #reply or 0, 2 do
    if reply[n] == 'w' then reply[n + 1] = hex(reply[n + 1]) end
  end
  for n = 1, command == 'HMGET' and #reply or 0 do
    if words[n + 2] == 'w' and reply[n] then reply[n] = hex(reply[n]) end
  end
  return reply
end

return function(run, reads)
  return read(run, function()
    local replies = {}
    for n, words in ipairs(cmsgpack.unpack(reads)) do
      if not READS[words[1]] then return redis.error_reply('ERR only reads are allowed here') end
      if words[1] == 'TIME' then
        replies[n] = redis.call('TIME')
      elseif words[1] == 'AGENT' then
        replies[n] = agents.record_of(run, words[3])
      else
        local reply = redis.call(words[1], run.keys.prefix .. words[2], unpack(words, 3))
        replies[n] = with_readable_record(words, reply)
      end
    end
    return replies
  end)
end
