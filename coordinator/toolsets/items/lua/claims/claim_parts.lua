-- What a new or renewed claim includes: parts as in included.lua; and if a token for it was asked for, that
-- this token is the newest one for the item. Its number is the id of the request, then the server's time. A recorded
-- reply has the same time, so a repeated call gives a token of the same number, and replaces none.
-- owns: none
local included = require 'included'
local requests = require 'requests'

local TOKEN_KEPT = 691200000 -- ms that a number is known which none replaces: longer than claims usually are renewed

-- Adds them to a claim as replies show it. `wanted` = letters of parts, then 't' and the request if a token was asked
-- for.
return function(run, claim, wanted)
  local parts, request = string.match(wanted, '^([inr]*)t?(%x*)$')
  if request ~= '' then requests.keep(run, 't' .. claim[2], TOKEN_KEPT, request .. run.now) end
  if parts == '' then return end
  claim[6] = claim[6] or {}
  claim[6].included = included.of(run, claim[2], parts)
end
