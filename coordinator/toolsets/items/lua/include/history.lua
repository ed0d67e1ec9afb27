-- @include keys
-- The last transitions of an item as {from, to, trigger, at, summary, actor, verification}, newest first: as many as
-- K_TRANSITIONS still has, `most` at the most.
local function last_transitions(item, most)
  local list, id = {}, item.tl
  while id and #list < most do
    local entry = redis.call('XRANGE', K_TRANSITIONS, id, id)[1]
    if not entry then break end
    local row = cmsgpack.unpack(entry[2][2])
    local _, from, to, trigger, _, _, summary, actor, verification, earlier = unpack(row, 1, 10)
    list[#list + 1] = {from, to, trigger, tonumber(string.match(id, '%d+')), summary, actor, verification}
    id = earlier
  end
  return list
end
