--[[
purpose:   Reads an item for an agent that is about to work on it: notes and claim, and ancestors if wanted.
guarantee: One consistent view. The claim is shown whether it is live or expired.
args:      id config ancestors
           config = schema version, '' where none is configured; ancestors = 1 or 0
reply:     {title, role, tags, depth, schema inputs, ancestors, claim {holder, claimed at, expires,
           first claimed at, whether expired} or false, unsatisfied blockers {id, role, needed role}}
errors:    NOT_FOUND
--]]
-- @include claims
-- @include graph
-- @include notes
-- @include ancestors
local item = load_item(id)
if not item then return redis.error_reply('FLEET NOT_FOUND') end
local claim = false
if item.holder then
  claim = {item.holder, item.claimed_at, item.expires, item.first_claimed_at, not is_live(item, server_time())}
end
return cmsgpack.pack({
  title_of(item), item.role, item.g or false, tonumber(item.d), schema_inputs(item, config),
  ancestors == '1' and ancestors_of(item) or {}, claim,
  item.nb and item.role < TERMINAL and unsatisfied_blockers(item) or {},
})
