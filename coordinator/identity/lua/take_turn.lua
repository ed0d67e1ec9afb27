--[[
purpose:   Newer keys of a source if the fleet has them; else whether the caller may ask the key server.
guarantee: One caller per cooldown is told to ask, however many processes there are and whatever came of it.
args:      source have cooldown_ms
           have = when the caller's keys were fetched, 0 for none; cooldown_ms 0 = only look
reply:     {now, verdict, fetched, document, wait_ms, trouble, trouble kind}; verdict take | ask | busy | wait
           (busy: somebody is asking right now), wait_ms = when the next may ask
errors:    none
--]]
-- @include keys
-- @include clock

local now = server_time()
local held = redis.call('HMGET', K_KEY_COPY .. source, 'f', 'd', 'e', 'k')
local fetched = tonumber(held[1] or 0)
local verdict, document, wait_ms = 'wait', '', 0
if fetched > tonumber(have) then
  verdict, document = 'take', held[2]
else
  local turn = K_KEY_TURN .. source
  local cooldown = tonumber(cooldown_ms)
  if cooldown > 0 and redis.call('SET', turn, 'busy', 'NX', 'PX', cooldown) then
    verdict = 'ask'
  else
    wait_ms = math.max(redis.call('PTTL', turn), 0)
    if redis.call('GET', turn) == 'busy' then verdict = 'busy' end
  end
end
return cmsgpack.pack({now, verdict, fetched, document, wait_ms, held[3] or '', held[4] or ''})
