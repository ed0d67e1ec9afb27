--[[
purpose:   Gives newer keys of a source, if the fleet has them; else says whether the caller may ask the key server.
guarantee: One process at a time may ask. The next one may not before the time that the last one has set
           (`keep_keys`, `fail_keys`), or before its lease has ended.
args:      source have lease_ms
           have = when the caller's keys were fetched, 0 for none; lease_ms = how long asking may take, 0 = only look
reply:     FetchReply (keys/copies.py)
errors:    none
full:      it mostly reads; a lease is one word
--]]
local key_copies = require 'key_copies'

return function(run, source, have, lease_ms)
  local held = redis.call('HMGET', run.keys.key_copy .. source, 'f', 'd', 'e', 'k')
  local fetched = tonumber(held[1] or 0)
  local verdict, document, wait_ms = 'wait', '', 0
  if fetched > tonumber(have) then
    verdict, document = 'take', held[2]
  else
    local lease = run.keys.key_fetch_lease .. source
    if tonumber(lease_ms) > 0 and key_copies.lease(run, source, lease_ms) then
      verdict = 'ask'
    else
      wait_ms = math.max(redis.call('PTTL', lease), 0)
      if redis.call('GET', lease) == 'busy' then verdict = 'busy' end
    end
  end
  return cmsgpack.pack({run.now, verdict, fetched, document, wait_ms, held[3] or '', held[4] or ''})
end
