-- What a new or renewed claim includes: parts as in included.lua; and if a token for it was asked for, that
-- this token is the newest one for the item. Its number is the id of the request, then the server's time. A recorded
-- reply has the same time, so a repeated call gives a token of the same number, and replaces none.
local included = require 'included'

local TOKEN_KEPT = 691200000 -- ms that a number is known which none replaces: longer than claims usually are renewed

-- `wanted` = letters of parts, then 't' and the request if a token was asked for. Returns the parts, or false.
return function(run, id, wanted)
  local parts, request = string.match(wanted, '^([inr]*)t?(%x*)$')
  if request ~= '' then redis.call('PSETEX', run.keys.request .. 't' .. id, TOKEN_KEPT, request .. run.now) end
  return parts ~= '' and included.of(run, id, parts)
end
