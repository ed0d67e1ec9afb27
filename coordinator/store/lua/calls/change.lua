-- The protocol of an operation that changes something and is repeated with the same request id if its answer is lost.
-- It is `change(run, request, body)`; a `request` is as in requests.lua.
-- In this order, in one atomic step:
--   1. A request that has been answered gets the same answer again, whatever has happened since. Nothing comes before
--      that: a repeated call must not have a second effect of any kind.
--   2. `body` makes the change. It returns the reply, a table; an error reply means that it has changed nothing, and is
--      not recorded, so that the call can be repeated once its cause is fixed. A second value `false` means that the
--      reply is not to be recorded.
--   3. The reply is recorded, after the change and before any other call can see either.
-- owns: none
local requests = require 'requests'

return function(run, request, body)
  local stored, refused = requests.recall(run, request)
  if stored then return {stored} end
  if refused then return refused end
  local reply, recorded = body()
  if reply.err then return reply end
  local packed = cmsgpack.pack(reply)
  return recorded == false and packed or requests.remember(run, request, 'D', packed)
end
