--[[
purpose:   One item as an agent that is about to work on it sees it: notes and claim, ancestors where asked for.
guarantee: One consistent view. The claim is shown whether it is live or expired.
args:      id config ancestors
           config = schema version, '' where none is configured; ancestors = 1 or 0
reply:     {title, role, tags, depth, schema inputs, ancestors, claim {holder, claimed at, expires,
           first claimed at, whether expired} or false}
errors:    NOT_FOUND
--]]
-- @include claims
-- @include notes
-- @include ancestors
local it = load(id)
if not it then return redis.error_reply('FLEET NOT_FOUND') end
local claim = false
if it.cb then
  claim = {it.cb, it.cc, it.cx, it.co, not live(it, server_time())}
end
return cmsgpack.pack({
  title(it), it.role, it.g or false, tonumber(it.d), schema_inputs(it, config),
  ancestors == '1' and ancestors_of(it) or {}, claim,
})
