--[[
purpose:   Keeps a short text.
guarantee: Never more than `most` of them; a text replaces the one with the same id.
args:      id text most
reply:     how many there are
errors:    KNOWLEDGE_FULL
owns:      knowledge
--]]
return function(run, id, text, most)
  local full = redis.call('HLEN', run.keys.knowledge) >= tonumber(most)
  if full and redis.call('HEXISTS', run.keys.knowledge, id) == 0 then
    return redis.error_reply('FLEET KNOWLEDGE_FULL')
  end
  redis.call('HSET', run.keys.knowledge, id, text)
  return redis.call('HLEN', run.keys.knowledge)
end
