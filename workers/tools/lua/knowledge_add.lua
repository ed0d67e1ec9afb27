--[[
purpose:   Keeps a short text.
guarantee: Never more than `most` of them; a text whose id is known replaces the one before.
args:      id text most
reply:     how many there are
errors:    KNOWLEDGE_FULL
--]]
-- @include keys
if redis.call('HLEN', K_KNOWLEDGE) >= tonumber(most) and redis.call('HEXISTS', K_KNOWLEDGE, id) == 0 then
  return redis.error_reply('FLEET KNOWLEDGE_FULL')
end
redis.call('HSET', K_KNOWLEDGE, id, text)
return redis.call('HLEN', K_KNOWLEDGE)
